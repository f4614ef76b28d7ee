#include "plugins/jobs/curation/text_file.hpp"

#include "core/io/byte_source.hpp"

namespace kinora::core {

Result<std::string> read_text_file(std::string_view uri, uint64_t limit, OtherBytes other) {
  auto bytes = read_text(uri, limit);
  return bytes ? utf8_text(*std::move(bytes), uri, other) : bytes;
}

}  // namespace kinora::core
