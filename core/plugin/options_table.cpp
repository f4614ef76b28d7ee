// kinora.options/1: the view of Options that plugins get.
#include "core/plugin/options.hpp"

namespace kinora::core {
namespace {

const Options& of(const kinora_options* o) { return *reinterpret_cast<const Options*>(o); }

const Options::Value& need(const kinora_options* o, const char* name) {
  const auto* value = of(o).find(name);
  if (!value)
    throw Error(KINORA_NOT_FOUND, fmt::format("no option '{}' in the manifest; plugin.toml is not current: "
                                              "build the target NAME.manifest, then build again",
                                              name));
  return *value;
}

template <class E>
const E& item(const kinora_options* o, const char* name, int64_t index, const char* type) {
  const auto& value = need(o, name);
  const auto* items = std::get_if<std::vector<E>>(&value.items);
  if (!items)
    throw Error(KINORA_INVALID, fmt::format("option '{}' is not a {} in the manifest; plugin.toml is not "
                                            "current: build the target NAME.manifest, then build again",
                                            name, type));
  if (index < 0 || static_cast<uint64_t>(index) >= items->size())
    throw Error(KINORA_INVALID, fmt::format("option '{}': item {} of {}", name, index, items->size()));
  return (*items)[static_cast<size_t>(index)];
}

int32_t count(const kinora_options* o, const char* name, int64_t* out) {
  return guard([&] {
    *out = std::visit([](const auto& v) { return static_cast<int64_t>(v.size()); }, need(o, name).items);
  });
}
int32_t get_int(const kinora_options* o, const char* name, int64_t index, int64_t* out) {
  return guard([&] { *out = item<int64_t>(o, name, index, "int"); });
}
int32_t get_float(const kinora_options* o, const char* name, int64_t index, double* out) {
  return guard([&] { *out = item<double>(o, name, index, "float"); });
}
int32_t get_string(const kinora_options* o, const char* name, int64_t index, kinora_str* out) {
  return guard([&] { *out = str(item<std::string>(o, name, index, "string")); });
}
int32_t all(const kinora_options* o, kinora_str* out) {
  return guard([&] { *out = str(of(o).canonical()); });
}

}  // namespace

const kinora_options_api& options_table() {
  static const kinora_options_api table{
      sizeof(kinora_options_api), 0, count, get_int, get_float, get_string, all};
  return table;
}

}  // namespace kinora::core
