// Checks of components of nearly any kind: options, and hosts of other sizes.
#include <cmath>
#include <dlfcn.h>
#include <optional>

#include "apps/command/command_line.hpp"
#include "apps/validate/trial_chain.hpp"
#include "core/plugin/host.hpp"
#include "core/plugin/library.hpp"
#include "kinora/abi/cache.h"
#include "kinora/abi/model.h"
#include "kinora/abi/tokenizer.h"

namespace kinora {
namespace component_checks_of {
namespace {

using core::json;

// The start of every table. create() of a model, a tokenizer and a cache has one argument more.
struct Maker {
  uint32_t struct_size, reserved;
  void* (*create)(const kinora_host*, const kinora_options*);
  void (*destroy)(void*);
};

bool declares_parameters(const PluginTrial& t) {
  return t.spec.kind == "model" || t.spec.kind == "tokenizer";
}

void* create(const PluginTrial& t, const core::Options& options, const kinora_context* context) {
  const kinora_host* host = &watching_host();
  if (t.spec.kind == "model") return t.table<kinora_model>().create(host, options.abi(), context);
  if (t.spec.kind == "tokenizer") return t.table<kinora_tokenizer>().create(host, options.abi(), context);
  if (t.spec.kind == "cache") return t.table<kinora_cache>().create(host, options.abi(), 0);
  return t.table<Maker>().create(host, options.abi());
}

// Whether it made an instance; a refusal without a message is a failure.
bool make_and_destroy(PluginTrial& t, const core::Options& options, const std::string& with) {
  std::optional<TrialChain> chain;
  if (declares_parameters(t)) chain.emplace(core::PlainChainOptions{.seed = t.subject.seed, .is_meta = true});
  t.now("create() with " + with);
  watching_host().set_error(&watching_host(), KINORA_OK, "");
  void* made = nullptr;
  try {
    made = create(t, options, chain ? chain->context() : nullptr);
  } catch (...) {
    throw Error(KINORA_ERROR_FAILED, "an exception left create() with " + with +
                                         "; catch it and return null after host->set_error()");
  }
  if (!made && last_message().empty())
    throw Error(KINORA_ERROR_FAILED,
                "create() with " + with + " returned null without a message; call host->set_error() first");
  if (!made) return false;
  t.now("destroy() after create() with " + with);
  t.table<Maker>().destroy(made);
  return true;
}

void require_made(PluginTrial& t, const core::Options& options, const std::string& with) {
  if (!make_and_destroy(t, options, with))
    throw Skipped{last_message() + "; give its options with --set NAME=VALUE"};
}

// Values at the ends of an option's range, and all its choices.
std::vector<json> edges_of(const core::OptionSpec& o) {
  std::vector<json> out;
  const auto number = [&](double v) {
    out.push_back(o.type == core::OptionType::real ? json(v) : json(static_cast<int64_t>(v)));
  };
  if (o.type == core::OptionType::boolean) out = {true, false};
  if (o.type == core::OptionType::string)
    for (const auto& choice : o.choices) out.push_back(choice);
  if (o.type == core::OptionType::real || o.type == core::OptionType::integer)
    for (const auto& end : {o.min, o.max})
      if (end && std::abs(*end) < 1e15) number(*end);
  return out;
}

std::string check_options(PluginTrial& t) {
  const core::Options defaults = t.options();
  const bool is_made = make_and_destroy(t, defaults, "its default options");
  Watch& w = watch();
  if (!w.refused_option.empty())
    throw Error(KINORA_ERROR_INVALID,
                "create() reads option " + w.refused_option +
                    ", which plugin.toml does not have so; write the manifest again (target NAME.manifest)");
  if (!is_made) require_made(t, defaults, "its default options");
  for (const auto& o : t.spec.options)
    if (!w.all_options_read && !w.options_read.count(o.name))
      throw Error(KINORA_ERROR_INVALID,
                  "create() never reads option '" + o.name +
                      "' of plugin.toml; read it there, or remove it from the manifest");
  for (const auto& o : t.spec.options)
    for (const json& value : edges_of(o)) {
      core::Options edge;
      try {
        edge = t.options({{o.name, value}});
      } catch (const Error&) {
        continue;  // the range is open at this end
      }
      make_and_destroy(t, edge, "option " + o.name + " = " + value.dump());
    }
  if (t.spec.options.empty()) return "it has none";
  w.options_fail = true;
  if (make_and_destroy(t, defaults, "a host that refuses to give options"))
    throw Error(KINORA_ERROR_INVALID,
                "create() makes an instance although the host gave it no option (an unknown one, of another "
                "type); return null when a call of kinora.options/1 fails");
  return "";
}

std::string check_newer_host(PluginTrial& t) {
  require_made(t, t.options(), "larger tables of a later host");
  if (const std::string table = written_table(); !table.empty())
    throw Error(KINORA_ERROR_FAILED, "it writes to the host's table " + table + "; tables are constant");
  return "";
}

std::string check_bare_host(PluginTrial& t) {
  // The entry has come back already; see prepare_host() in plugins_child.cpp.
  make_and_destroy(t, t.options(), "a host that offers no interface");
  return "";
}

std::string check_unknown_ids(PluginTrial& t) {
  if (!KINORA_HAS(&t.component, get_interface) || !t.component.get_interface)
    return "it offers no further interface";
  for (const char* id : {"nobody.unknown/1", "kinora.stage/99", "", "x"}) {
    t.now(std::string("get_interface(\"") + id + "\")");
    if (t.component.get_interface(id, KINORA_ABI_MINOR))
      throw Error(KINORA_ERROR_INVALID, std::string("get_interface(\"") + id +
                                            "\") returned a table; return null for an id that is not known");
  }
  return "";
}

constexpr Check kChecks[] = {
    {"options", kAnyKind,
     "create() reads every option of the manifest and no other, at the ends of its range too, and refuses "
     "what it cannot read",
     false, nullptr, check_options},
    {"unknown-ids", kAnyKind, "get_interface() of a component answers an unknown id with null", false,
     nullptr, check_unknown_ids},
    {"newer-host", kAnyKind, "it works with a host whose tables are larger, and leaves them alone", false,
     nullptr, check_newer_host},
    {"bare-host", kAnyKind, "a host without any interface gets an error, or is not needed", false, nullptr,
     check_bare_host}};

}  // namespace
}  // namespace component_checks_of

bool Check::is_for(const core::ComponentSpec& spec) const {
  const std::string list = std::string(" ") + kinds + " ";
  return list.find(" " + spec.kind + " ") != list.npos;
}

core::Options PluginTrial::options(core::json more) const {
  for (const auto& text : subject.sets) {
    const SetOption set = parse_set(text);
    if (spec.option(set.name) && !more.contains(set.name)) more[set.name] = set.value;
  }
  for (const auto& o : spec.options)
    if (o.required && !more.contains(o.name))
      throw Skipped{"it requires option '" + o.name + "'; give it with --set " + o.name + "=VALUE"};
  return core::or_throw(core::Options::make(spec, more));
}

const kinora_component& open_watched(const Subject& s, const core::ComponentSpec& spec) {
  if (s.plugin->tier != core::Tier::stable) core::or_throw(core::ensure_torch());
  void* library = ::dlopen(s.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw Error(KINORA_ERROR_UNSUPPORTED, ::dlerror());
  const auto entry = reinterpret_cast<kinora_plugin_entry_fn>(::dlsym(library, KINORA_PLUGIN_ENTRY));
  if (!entry) throw Error(KINORA_ERROR_INVALID, "it exports no function " KINORA_PLUGIN_ENTRY);
  watching_host().set_error(&watching_host(), KINORA_OK, "");
  const kinora_plugin* plugin = entry(&watching_host());
  if (!plugin && watch().offers_nothing && !last_message().empty())
    throw Skipped{"its entry refuses a host without interfaces, and says so"};
  if (!plugin) throw Error(KINORA_ERROR_UNSUPPORTED, "its entry: " + last_message());
  core::or_throw(core::check_opened(*plugin, *s.plugin));
  for (uint32_t i = 0; i < plugin->n_components; ++i)
    if (const auto& c = core::component_at(*plugin, i); spec.id == c.id) return c;
  throw Error(KINORA_ERROR_NOT_FOUND, "it has no component " + spec.id);
}

std::span<const Check> component_checks() { return component_checks_of::kChecks; }

std::vector<Check> all_checks() {
  std::vector<Check> out;
  for (const auto part :
       {library_checks(), component_checks(), surroundings_checks(), stage_checks(), storage_checks(),
        sampler_checks(), loss_checks(), optimizer_checks(), model_checks(), tokenizer_checks(),
        precision_checks(), score_checks(), source_checks(), cache_checks(), engine_checks(),
        collective_checks(), strategy_checks()})
    out.insert(out.end(), part.begin(), part.end());
  return out;
}

}  // namespace kinora
