local ended = false
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    if (condition.type == "Complete" or condition.type == "Failed") and condition.status == "True" then
      ended = true
    end
  end
end

local wanted = obj.spec.desiredState or "Running"
local actions = {}
actions["pause"] = {
  iconClass = "fa fa-fw fa-pause",
  disabled = ended or wanted ~= "Running"
}
actions["resume"] = {
  iconClass = "fa fa-fw fa-play",
  disabled = ended or wanted ~= "Paused"
}
actions["stop"] = {
  iconClass = "fa fa-fw fa-stop",
  disabled = ended or wanted == "Stopped"
}
return actions
