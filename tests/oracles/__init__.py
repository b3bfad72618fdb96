"""Independent answers that the tests compare the library with."""
