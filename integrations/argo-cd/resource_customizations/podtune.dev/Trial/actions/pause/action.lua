obj.spec.desiredState = "Paused"
return obj
