#include "core/workers/shallow.hpp"

#include <nlohmann/json.hpp>

namespace kinora::core {
namespace {

using nlohmann::json;

// Counts open arrays and objects, and aborts parsing if there are too many.
class Depth final : public nlohmann::json_sax<json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool start_object(size_t) override { return ++depth_ <= kDeepestHead; }
  bool start_array(size_t) override { return ++depth_ <= kDeepestHead; }
  bool end_object() override { return --depth_, true; }
  bool end_array() override { return --depth_, true; }
  bool parse_error(size_t, const std::string&, const json::exception&) override { return false; }

 private:
  int depth_ = 0;
};

}  // namespace

bool is_shallow_cbor(const uint8_t* begin, const uint8_t* end) {
  Depth depth;
  return json::sax_parse(begin, end, &depth, json::input_format_t::cbor);
}

}  // namespace kinora::core
