module tinyloop/test/hf

go 1.26.0
