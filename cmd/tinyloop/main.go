// Command tinyloop trains, loads and serves small looped language models.
package main

func main() {}
