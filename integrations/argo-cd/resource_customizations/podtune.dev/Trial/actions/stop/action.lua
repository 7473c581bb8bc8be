obj.spec.desiredState = "Stopped"
return obj
