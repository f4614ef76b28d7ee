// Any bytes as an expression over facts: a condition that holds or does not, or an error that says where.
#include <cstdlib>

#include "core/base/expression.hpp"
#include "kinora/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto facts = nlohmann::json::parse(
      R"({"scores": {"filter.blur": 21, "filter": {"blur": 3}}, "duration_s": 2.5, "id": -7, "damaged": false,
          "user": {"rating": "4"}, "caption": "a sea", "tags": ["sea", 1, null, []]})");
  try {
    const auto expression = kinora::core::Expression::parse({reinterpret_cast<const char*>(data), size});
    expression.holds(facts, "clip-1");
    expression.holds(nullptr, "");
    for (const auto& name : expression.facts())
      if (name.empty() || name == "key") std::abort();
  } catch (const kinora::Error& e) {
    const std::string_view what(e.what());
    if (what.find("column ") == what.npos && what.find(" bytes ") == what.npos) std::abort();
  }
  return 0;
}
