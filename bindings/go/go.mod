module realizar.dev/go

go 1.24
