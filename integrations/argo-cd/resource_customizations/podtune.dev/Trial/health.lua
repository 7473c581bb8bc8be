-- Trials follow kstatus as far as status.observedGeneration goes; Complete and Failed are as in a Job.
local hs = {status = "Progressing", message = "Waiting for the operator to look at the spec"}
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return hs
end

hs.message = obj.status.message
if obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    if condition.type == "Failed" and condition.status == "True" then
      hs.status = "Degraded"
    elseif condition.type == "Complete" and condition.status == "True" then
      hs.status = "Healthy"
    end
  end
end
if obj.status.state == "PAUSED" then
  hs.status = "Suspended"
end
return hs
