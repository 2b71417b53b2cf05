// Administration: models are loaded, unloaded and read again while the service runs.
package main

import (
	"errors"
	"net/http"
	"os"
	"os/signal"
	"syscall"
)

// modelRequest is the body of a request that administers a model.
type modelRequest struct {
	Model *string `json:"model"`
}

// administered reads an administrator's request and finds the model that it names; nil: the request names none.
func (s *server) administered(w http.ResponseWriter, r *http.Request) (name string, file *model, err error) {
	if err := s.mayAdminister(r); err != nil {
		return "", nil, err
	}
	var request modelRequest
	if err := readKnown(w, r, &request); err != nil || request.Model == nil {
		return "", nil, err
	}
	name = *request.Model
	recordOf(r.Context()).names(name)
	if file = s.models.find(name); file == nil {
		return "", nil, noModel(name)
	}
	if file.base != nil {
		file = file.base
	}
	return name, file, nil
}

// load serves POST /models/load.
func (s *server) load(w http.ResponseWriter, r *http.Request) error {
	name, file, err := s.administered(w, r)
	if err == nil && file == nil {
		err = refuse("model", "the request names no model")
	}
	if err != nil {
		return err
	}
	return s.loadNow(w, r, name)
}

// loadNow loads a model and describes it.
func (s *server) loadNow(w http.ResponseWriter, r *http.Request, name string) error {
	l, err := s.models.lease(r.Context(), name)
	if err != nil {
		return err
	}
	defer l.release()
	return writeJSON(w, s.models.describe(name))
}

// unload serves POST /models/unload. It waits for the requests that use the model.
func (s *server) unload(w http.ResponseWriter, r *http.Request) error {
	name, file, err := s.administered(w, r)
	if err == nil && file == nil {
		err = refuse("model", "the request names no model")
	}
	if err == nil {
		err = s.models.drain(r.Context(), file)
	}
	if err != nil {
		return err
	}
	return writeJSON(w, s.models.describe(name))
}

// reload serves POST /models/reload: reloads the named model or, without a name, everything that SIGHUP reads again.
func (s *server) reload(w http.ResponseWriter, r *http.Request) error {
	name, file, err := s.administered(w, r)
	if err != nil {
		return err
	}
	if file == nil {
		if err := s.readAgain(); err != nil {
			return &apiError{status: http.StatusInternalServerError, message: "cannot read the keys, the certificate or the folder of models; the log says why", logged: err}
		}
		return s.list(w, r)
	}
	if err := s.models.drain(r.Context(), file); err != nil {
		return err
	}
	return s.loadNow(w, r, name)
}

// readAgain reads the keys, the certificate and the folder of models again. If one of these cannot be read, it stays as
// it is.
func (s *server) readAgain() error {
	s.reading.Lock()
	defer s.reading.Unlock()
	errs := []error{s.readKeys()}
	if s.tls != nil {
		errs = append(errs, s.tls.Read())
	}
	return errors.Join(append(errs, s.models.rescan())...)
}

// readAgainOnHangup calls readAgain after each SIGHUP, until the returned function is called.
func (s *server) readAgainOnHangup() (end func()) {
	hangups, over := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer close(over)
		for range hangups {
			if err := s.readAgain(); err != nil {
				alarm("SIGHUP: %v", err)
			} else {
				inform("SIGHUP: the keys, the certificate and the folder of models have been read again")
			}
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
		<-over
	}
}
