// Package validator stands for gopkg.in/validator.v2, which generated code calls where a union has no discriminator.
package validator

// Validate accepts everything: no generated type has rules.
func Validate(interface{}) error { return nil }
