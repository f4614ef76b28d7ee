#include "core/plugin/host.hpp"
#include "core/plugin/library.hpp"
#include "kinora/options.hpp"

namespace kinora::core {

Result<std::string> generate_manifest(const kinora_plugin* plugin, const TierFields& tier) {
  // Quotes like the SDK, so that every line of the file follows one rule.
  const auto quoted = [](const char* s) { return detail::toml_string(s); };
  std::string out = "[plugin]\n";
  const auto line = [&](const char* key, const std::string& value) {
    out += fmt::format("{} = {}\n", key, quoted(value.c_str()));
  };
  line("name", plugin->name);
  line("version", plugin->version);
  line("abi", fmt::format("{}.{}", plugin->abi_major, plugin->abi_minor));
  line("tier", tier_name(tier.tier));
  if (tier.tier == Tier::pinned) {
    line("torch", "==" + tier.torch);
    line("cxx_abi", tier.cxx_abi);
    if (!tier.cuda.empty()) line("cuda", tier.cuda);
  }
  if (tier.tier == Tier::host) line("kinora", "==" + tier.kinora);
  const kinora_sink sink{&out, [](void* to, const void* data, uint64_t size) {
                           static_cast<std::string*>(to)->append(static_cast<const char*>(data), size);
                         }};
  for (uint32_t i = 0; i < plugin->n_components; ++i) {
    const auto& c = component_at(*plugin, i);
    if (!c.describe) {
      return fail(KINORA_UNSUPPORTED,
                  "{}: component {} describes nothing; its plugin.toml is written by hand", plugin->name,
                  c.id);
    }
    out += '\n';
    const auto status = from_abi(c.describe(&sink), std::string(c.id) + ": describe");
    if (!status) return status.failure();
  }
  return out;
}

}  // namespace kinora::core
