local ended = false
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    if (condition.type == "Complete" or condition.type == "Failed") and condition.status == "True" then
      ended = true
    end
  end
end

local is_stopping = obj.spec.stop ~= nil and obj.spec.stop.now == true
local actions = {}
actions["suspend"] = {
  iconClass = "fa fa-fw fa-pause",
  disabled = ended or is_stopping or obj.spec.suspend == true
}
actions["resume"] = {
  iconClass = "fa fa-fw fa-play",
  disabled = not (ended or obj.spec.suspend == true)
}
actions["stop"] = {
  iconClass = "fa fa-fw fa-stop",
  disabled = ended or is_stopping
}
return actions
