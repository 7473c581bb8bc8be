// The definitions of ServiceMonitor and PrometheusRule, for the tests of the chart. Nothing of it is compiled.
module podtune.dev/e2e/tools/prometheus-operator

go 1.25.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
