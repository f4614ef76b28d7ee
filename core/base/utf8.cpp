#include "core/base/utf8.hpp"

#include <nlohmann/json.hpp>

namespace kinora::core {

std::string valid_utf8(std::string_view text) {
  using nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
}

}  // namespace kinora::core
