// WebDataset's rule for names, which decides what readers find again.
#pragma once
#include <string_view>

namespace kinora::shard {

// A member of a shard is called KEY.FIELD, and readers split it at the first dot of its last part
// (^((?:.*/|)[^.]+)[.]([^/]*)$, the expression of webdataset and Energon). So a key whose last part has a dot
// would come back as another key, and members called __x__ are not read at all. Throws Error (KINORA_DATA)
// with what is wrong.
void check_key(std::string_view key);
void check_field(std::string_view key, std::string_view field);

}  // namespace kinora::shard
