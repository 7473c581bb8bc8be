// Command tools reads cases from standard input, one JSON object a line, and prints what the tools make of each.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	luajson "layeh.com/gopher-json"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// Case is an object, and what it is to be looked at by, beside kstatus.
type Case struct {
	Object json.RawMessage                  `json:"object"`
	Flux   kustomize.HealthCheckExpressions `json:"flux"`
	Lua    string                           `json:"lua"`
}

// Answer is what the tools say.
type Answer struct {
	Kstatus string          `json:"kstatus"`
	Flux    string          `json:"flux"`
	Lua     json.RawMessage `json:"lua"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		answer, err := ask(lines.Bytes())
		if err == nil {
			err = answers.Encode(answer)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func ask(line []byte) (*Answer, error) {
	var given Case
	if err := json.Unmarshal(line, &given); err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(given.Object); err != nil {
		return nil, err
	}
	found, err := status.Compute(object)
	if err != nil {
		return nil, err
	}
	evaluator, err := cel.NewStatusEvaluator(&given.Flux)
	if err != nil {
		return nil, err
	}
	evaluated, err := evaluator.Evaluate(context.Background(), object)
	if err != nil {
		return nil, err
	}
	answer, err := run(given.Lua, given.Object)
	if err != nil {
		return nil, err
	}
	return &Answer{Kstatus: found.Status.String(), Flux: evaluated.Status.String(), Lua: answer}, nil
}

// run runs a script with the libraries that Argo CD opens for scripts in its ConfigMap.
func run(script string, object []byte) ([]byte, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
	} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return nil, err
		}
	}
	value, err := luajson.Decode(state, object)
	if err != nil {
		return nil, err
	}
	state.SetGlobal("obj", value)
	if err := state.DoString(script); err != nil {
		return nil, err
	}
	return luajson.Encode(state.Get(-1))
}
