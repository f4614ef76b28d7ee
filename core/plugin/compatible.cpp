// Checks whether a plugin fits this host: by the manifest before the library is opened, by its tables after.
#include <cstring>
#include <set>
#include <sstream>

#include "core/build_info.hpp"
#include "core/plugin/kinds.hpp"
#include "core/plugin/library.hpp"
#include "core/plugin/libtorch.hpp"

namespace kinora::core {
namespace {

// Sizes that ABI 1.0 fixed: the minimum that a plugin may write in struct_size.
constexpr uint32_t plugin_size = 40, component_size = 48;
constexpr uint32_t max_components = 4096;

Failure differs(const kinora_plugin& p, std::string_view field, std::string_view expected,
                std::string_view found) {
  return fail(KINORA_ERROR_INVALID,
              "plugin '{}': {}: expected {}, found {}; build the library and its plugin.toml again, together",
              p.name ? p.name : "", field, expected, found);
}

// A value that this host does not know is refused by name (abi/base.h, rule 11).
Status check_known(const kinora_plugin& p, std::string_view member, std::string_view of, uint32_t found,
                   uint32_t last_known) {
  if (found <= last_known) return {};
  return fail(
      KINORA_ERROR_UNSUPPORTED,
      "plugin '{}': {} of {} is {}, which this Kinora does not know; set it to {}, or use a newer Kinora",
      p.name ? p.name : "", member, of, found, last_known ? fmt::format("0 to {}", last_known) : "0");
}

// Whether all functions that the interface does not call optional exist.
Status check_slots(const kinora_plugin& p, const kinora_component& c, const Kind& kind) {
  std::istringstream names(kind.slots);
  const auto* slot = static_cast<const std::byte*>(c.api) + 8;
  for (std::string name; names >> name; slot += sizeof(void*)) {
    void* function = nullptr;
    std::memcpy(&function, slot, sizeof function);
    if (!function && name.back() != '?')
      return differs(p, fmt::format("{} of {}", name, c.id), "a function", "null");
  }
  return {};
}

Status check_component(const kinora_plugin& p, const kinora_component& c, const PluginSpec& manifest) {
  if (!c.id || !manifest.component(c.id))
    return differs(p, "component", "one of the manifest's", c.id ? c.id : "no id");
  if (!manifest.component(c.id)->unusable.empty()) return {};  // nothing calls it
  if (auto status = check_known(p, "reserved", fmt::format("{}'s kinora_component", c.id), c.reserved, 0);
      !status)
    return status;
  const auto* kind = find_kind(manifest.component(c.id)->kind);
  if (!kind) return differs(p, "kind", "one that this host knows", manifest.component(c.id)->kind);
  const std::string_view found = c.interface_id ? c.interface_id : "none";
  if (!kind->accepts(found)) return differs(p, fmt::format("interface of {}", c.id), kind->interface, found);
  if (!c.api) return differs(p, fmt::format("table of {}", c.id), "a table of functions", "null");
  // Every interface's table begins with its struct_size and one more number.
  const auto* head = static_cast<const uint32_t*>(c.api);
  const uint32_t size = head[0];
  if (size < kind->table_size) {
    return differs(p, fmt::format("struct_size of {}'s {} table", c.id, kind->interface),
                   fmt::format("at least {}", kind->table_size), std::to_string(size));
  }
  const auto table = fmt::format("{}'s {} table", c.id, kind->interface);
  if (auto status = check_known(p, kind->word, table, head[1], kind->last_known); !status) return status;
  return check_slots(p, c, *kind);
}

}  // namespace

const HostFacts& host_facts() {
  static const HostFacts facts = [] {
    HostFacts f;
    f.kinora = KINORA_VERSION;
    f.torch = KINORA_TORCH_VERSION;
    f.cxx_abi = _GLIBCXX_USE_CXX11_ABI ? "1" : "0";
    if (KINORA_CUDA) f.cuda = "13";
    if (const auto& found = libtorch_folder())
      f.torch_folder = *found;
    else
      f.why_no_torch = found.failure().message;
    return f;
  }();
  return facts;
}

Status check_compatible(const PluginSpec& p, const HostFacts& host) {
  const auto refuse = [&](const char* field, const std::string& expected, const std::string& found,
                          const char* remedy) -> Status {
    return fail(KINORA_ERROR_UNSUPPORTED, "plugin '{}': {}: expected {}, found {}; {}", p.name, field,
                expected, found, remedy);
  };
  const auto abi = fmt::format("{}.{}", p.abi_major, p.abi_minor);
  if (p.abi_major != host.abi_major) {
    return refuse(
        "abi", fmt::format("{}.0 to {}.{}", host.abi_major, host.abi_major, host.abi_minor), abi,
        p.abi_major < host.abi_major ? "build the plugin with this Kinora's SDK" : "it needs a newer Kinora");
  }
  if (p.abi_minor > host.abi_minor)
    return refuse("abi", fmt::format("{}.0 to {}.{}", host.abi_major, host.abi_major, host.abi_minor), abi,
                  "it needs a newer Kinora");
  if (p.tier == Tier::host && p.kinora != host.kinora)
    return refuse("kinora", host.kinora, p.kinora,
                  "build it with this Kinora, or install both from one package");
  if (p.tier != Tier::pinned) return {};
  const char* rebuild = "build the plugin against this Kinora's libtorch, or take the stable tier";
  if (p.torch != host.torch)
    return refuse("torch", host.torch.empty() ? "none, this build has no libtorch" : host.torch, p.torch,
                  rebuild);
  if (p.cxx_abi != host.cxx_abi) return refuse("cxx_abi", host.cxx_abi, p.cxx_abi, rebuild);
  const auto major = [](const std::string& version) { return version.substr(0, version.find('.')); };
  if (!p.cuda.empty() && major(p.cuda) != major(host.cuda)) {
    return refuse("cuda", host.cuda.empty() ? "none, this is a build without CUDA" : host.cuda, p.cuda,
                  "take a Kinora built with that CUDA (preset cuda)");
  }
  return {};
}

const kinora_component& component_at(const kinora_plugin& plugin, uint32_t i) {
  const auto* first = reinterpret_cast<const char*>(plugin.components);
  return *reinterpret_cast<const kinora_component*>(first + size_t{i} * plugin.components->struct_size);
}

Status check_shape(const kinora_plugin& p, const std::string& name) {
  const auto wrong = [&](std::string_view field, const std::string& expected, uint64_t found) -> Status {
    return fail(KINORA_ERROR_INVALID,
                "plugin '{}': {}: expected {}, found {}; build it again with this Kinora's SDK", name, field,
                expected, found);
  };
  if (p.struct_size < plugin_size)
    return wrong("struct_size of kinora_plugin", fmt::format("at least {}", plugin_size), p.struct_size);
  if (p.abi_major != KINORA_ABI_MAJOR)
    return wrong("abi_major", std::to_string(KINORA_ABI_MAJOR), p.abi_major);
  if (p.n_components == 0 || p.n_components > max_components || !p.components)
    return wrong("n_components", fmt::format("1 to {} and a list of them", max_components), p.n_components);
  for (uint32_t i = 0; i < p.n_components; ++i) {
    const uint32_t size = component_at(p, i).struct_size;
    if (size < component_size || size % 8 != 0 || size != p.components->struct_size)
      return wrong("struct_size of kinora_component",
                   fmt::format("at least {}, the same in all", component_size), size);
  }
  return {};
}

Status check_opened(const kinora_plugin& p, const PluginSpec& manifest) {
  if (auto status = check_shape(p, manifest.name); !status) return status;
  const auto abi = [](uint32_t major, uint32_t minor) { return fmt::format("{}.{}", major, minor); };
  const std::string_view name = p.name ? p.name : "", version = p.version ? p.version : "";
  if (name != manifest.name) return differs(p, "name", manifest.name, name);
  if (version != manifest.version) return differs(p, "version", manifest.version, version);
  if (p.abi_minor != manifest.abi_minor)
    return differs(p, "abi", abi(manifest.abi_major, manifest.abi_minor), abi(p.abi_major, p.abi_minor));
  std::set<std::string_view> seen;
  for (uint32_t i = 0; i < p.n_components; ++i) {
    const auto& c = component_at(p, i);
    if (auto status = check_component(p, c, manifest); !status) return status;
    if (!seen.insert(c.id).second)
      return differs(p, "component", "each id once", std::string(c.id) + " twice");
  }
  for (const auto& c : manifest.components)
    if (!seen.contains(c.id)) return differs(p, "component", c.id, "none of that id in the library");
  return {};
}

}  // namespace kinora::core
