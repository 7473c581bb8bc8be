// The schemas of k9s' plugins and views. Nothing of it is compiled.
module podtune.dev/tests/tools/k9s

go 1.25.0

require github.com/derailed/k9s v0.50.16
