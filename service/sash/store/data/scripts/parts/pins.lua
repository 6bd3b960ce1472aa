-- What `pinned` has for a message in every window.
local function pin_value(record, its_details, body) return struct.pack('>I4', #its_details) .. record .. its_details .. body end
