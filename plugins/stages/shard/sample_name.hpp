// WebDataset's rule for names, which decides whether readers recover a sample.
#pragma once
#include <string_view>

namespace kinora::shard {

// Checks a key and throws Error (KINORA_DATA) that says what is wrong. A member of a shard is called KEY.FIELD, and
// readers split it at the first dot of its last part (^((?:.*/|)[^.]+)[.]([^/]*)$, the expression of webdataset and
// Energon). A key with a dot in its last part would be read as another key, and members called __x__ are not read.
void check_key(std::string_view key);
void check_field(std::string_view key, std::string_view field);

}  // namespace kinora::shard
