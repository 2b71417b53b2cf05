package realizar

import (
	"encoding/json"
	"reflect"
	"unicode/utf8"
)

// marshal is json.Marshal that rejects texts that are not UTF-8, instead of replacing bytes by U+FFFD.
func marshal(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err == nil && !isUTF8(reflect.ValueOf(value)) {
		return nil, wrong("a text of the messages is not UTF-8; it must be")
	}
	return text, err
}

// isUTF8 checks all texts of a value that json.Marshal accepted, so it has no cycles.
func isUTF8(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.String:
		return utf8.ValidString(value.String())
	case reflect.Interface, reflect.Pointer:
		return value.IsNil() || isUTF8(value.Elem())
	case reflect.Slice, reflect.Array:
		for i := 0; i < value.Len() && value.Type().Elem().Kind() != reflect.Uint8; i++ { // bytes become base64, or are JSON
			if !isUTF8(value.Index(i)) {
				return false
			}
		}
	case reflect.Map:
		for entries := value.MapRange(); entries.Next(); {
			if !isUTF8(entries.Key()) || !isUTF8(entries.Value()) {
				return false
			}
		}
	case reflect.Struct:
		for i := range value.NumField() {
			if value.Type().Field(i).IsExported() && !isUTF8(value.Field(i)) {
				return false
			}
		}
	}
	return true
}
