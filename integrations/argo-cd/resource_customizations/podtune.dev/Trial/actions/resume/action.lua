obj.spec.desiredState = "Running"
return obj
