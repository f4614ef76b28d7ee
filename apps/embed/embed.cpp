// The C API for programs that embed libkinora (kinora/embed.h).
#include "apps/embed/embed.hpp"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>

#include "apps/command/load_run.hpp"
#include "apps/command/runner.hpp"
#include "apps/command/surroundings.hpp"
#include "core/base/cancel.hpp"
#include "core/base/log.hpp"
#include "core/base/paths.hpp"
#include "core/build_info.hpp"
#include "core/config/document.hpp"
#include "core/plugin/host.hpp"
#include "core/plugin/plugins_lock.hpp"
#include "host/workers/service.hpp"

namespace kinora::core::embed {
namespace {

std::atomic<bool> has_open_host = false;

// Marks the host as running a run file, of which a process has one at a time.
class Running {
 public:
  explicit Running(kinora_embed& host) : host_(host) {
    const std::scoped_lock lock(host.run);
    if (std::exchange(host.is_running, true))
      throw Error(KINORA_ERROR_INVALID, "this host is running already; wait until that call returns");
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    const std::scoped_lock lock(host_.run);
    host_.is_running = false;
    cancel(false);
  }

 private:
  kinora_embed& host_;
};

std::vector<std::string> list_of(const char* const* texts, uint64_t n) {
  return texts ? std::vector<std::string>(texts, texts + n) : std::vector<std::string>();
}

// Workers are processes of the program, which may not be installed with the library.
void offer_installed_workers(const std::vector<std::filesystem::path>& plugin_dirs) {
  const auto program = program_folder() / "kinora";
  std::error_code error;
  if (std::filesystem::is_regular_file(program, error))
    offer_workers({.program = program, .plugin_dirs = plugin_dirs});
}

// libtorch's waiting threads spin if the caller loaded it before anything set their policy.
bool has_spinning_threads() {
  return !std::getenv("OMP_WAIT_POLICY") && ::dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
}

kinora_embed* open_host(const kinora_embed_options* options) {
  if (!options || options->draft != KINORA_EMBED_DRAFT)
    throw Error(
        KINORA_ERROR_UNSUPPORTED,
        fmt::format("this program was built for draft {} of kinora/embed.h, this libkinora {} has draft {}; "
                    "build it again with this one's headers",
                    options ? options->draft : 0, KINORA_VERSION, KINORA_EMBED_DRAFT));
  if (has_open_host.exchange(true))
    throw Error(KINORA_ERROR_INVALID, "this process has an open host; close it first");
  try {
    auto made = std::make_unique<kinora_embed>();
    made->log = options->log;
    made->user = options->user;
    RuntimeOptions how{.log_level = options->log_level ? options->log_level : ""};
    for (const auto& folder : list_of(options->plugin_folders, options->n_plugin_folders))
      how.plugin_dirs.emplace_back(folder);
    auto* host = made.get();
    if (host->log) divert_log([host](int32_t level, std::string_view text) { host->line(level, text); });
    const bool spins = has_spinning_threads();
    made->runtime = or_throw(Runtime::start(how));
    if (spins)
      log_warn(
          "libtorch was loaded before Kinora: its threads spin while they wait, and take processor time from "
          "other processes; import torch after kinora, or set OMP_WAIT_POLICY=passive");
    made->runtime->torch_loader(open_torch_library);
    offer_installed_workers(how.plugin_dirs);
    return made.release();
  } catch (...) {
    divert_log(nullptr);
    has_open_host = false;
    throw;
  }
}

void run_file(kinora_embed& host, const kinora_embed_run_options& how) {
  if (!how.file && !how.text)
    throw Error(KINORA_ERROR_INVALID,
                "a run file is missing: give its path as `file`, or its contents as `text`");
  Runtime& runtime = *host.runtime;
  const std::string file = how.file ? how.file : "run.toml";
  Document doc = or_throw(how.text ? Document::parse(how.text, file) : Document::read(file));
  std::vector<Diagnostic> problems;
  RunOptions options{.only = how.only ? how.only : ""};
  RunFile run = load_run(runtime, doc, file, list_of(how.sets, how.n_sets), {}, problems, options.only);
  const bool has_job =
      options.only.empty() || std::any_of(run.jobs.begin(), run.jobs.end(),
                                          [&](const auto& job) { return job.is_called(options.only); });
  if (!has_job) problems.push_back({{file}, "no job is called '" + options.only + "'"});
  std::string all;
  for (const auto& p : problems)
    all += (all.empty() ? "" : "\n") + (p.at.file.empty() ? p.message : format(p));
  if (!all.empty()) throw Error(KINORA_ERROR_INVALID, all);
  if (how.out) run.out = std::filesystem::absolute(how.out).lexically_normal();
  if (!runtime.has_log_level()) or_throw(set_log_level(run.log_level));
  std::filesystem::create_directories(run.out);
  const auto log = or_throw(LogFile::open(run.out / "kinora.log"));
  host.forget();
  const RunResult result = run_jobs(runtime, run, options);
  if (result.was_cancelled)
    throw Error(KINORA_ERROR_CANCELLED, "the run was asked to stop; run it again to continue");
  const std::scoped_lock lock(host.mutex);
  if (!result.ok)
    throw Error(result.was_refused ? KINORA_ERROR_INVALID : KINORA_ERROR_FAILED,
                host.last_error.empty() ? "the run failed; see " + (run.out / "kinora.log").string()
                                        : host.last_error);
}

json options_json(const ComponentSpec& spec) {
  json out = json::object();
  for (const auto& option : spec.options)
    out[option.name] = {
        {"type", type_name(option.type)}, {"default", option.default_value}, {"help", option.help}};
  return out;
}

json components_json(Registry& registry) {
  json out = json::array();
  const auto plugins = registry.plugins();
  for (const auto& id : registry.ids())
    for (const auto& plugin : plugins)
      if (const auto* spec = plugin.spec.component(id); spec && !plugin.shadowed.contains(id) &&
                                                        plugin.state != PluginState::shadowed &&
                                                        plugin.state != PluginState::disabled)
        out.push_back({{"id", id},
                       {"kind", spec->kind},
                       {"name", spec->name},
                       {"help", spec->help},
                       {"plugin", plugin.spec.name},
                       {"version", plugin.spec.version},
                       {"options", options_json(*spec)}});
  return out;
}

json fingerprint(const Registry& registry) {
  const auto all = registry.plugins();
  const auto lock = or_throw(Document::parse(PluginsLock::of(all).text(), kPluginsLock));
  json plugins = lock.root().value("plugin", json::object());
  for (const auto& plugin : all)
    if (plugin.library.empty() && plugin.state != PluginState::disabled)
      plugins[plugin.spec.name] = {{"version", plugin.spec.version}};
  return {{"version", KINORA_VERSION},
          {"abi", fmt::format("{}.{}", KINORA_ABI_MAJOR, KINORA_ABI_MINOR)},
          {"plugins", std::move(plugins)}};
}

}  // namespace

void write(const json& object, const kinora_sink& to) {
  const std::string text = object.dump(-1, ' ', false, json::error_handler_t::replace);
  to.write(to.self, text.data(), text.size());
}

extern "C" {

const char* kinora_embed_version(void) { return KINORA_VERSION; }

const char* kinora_embed_error(void) {
  const kinora_str text = core_host().last_error(&core_host());
  return text.size ? text.data : "";
}

int32_t kinora_embed_open(const kinora_embed_options* options, kinora_embed** out) {
  return guard([&] { *out = open_host(options); });
}

void kinora_embed_close(kinora_embed* host) {
  guard([&] {
    divert_log(nullptr);
    delete host;
    has_open_host = false;
  });
}

int32_t kinora_embed_run(kinora_embed* host, const kinora_embed_run_options* options) {
  return guard([&] {
    const Running running(*host);
    const KeptSurroundings kept;
    run_file(*host, *options);
  });
}

void kinora_embed_cancel(kinora_embed* host) {
  ++host->cancels;
  const std::scoped_lock lock(host->run);
  if (host->is_running) cancel();
}

int32_t kinora_embed_components(kinora_embed* host, const kinora_sink* to) {
  return guard([&] { write(components_json(host->runtime->registry()), *to); });
}

int32_t kinora_embed_fingerprint(kinora_embed* host, const kinora_sink* to) {
  return guard([&] { write(fingerprint(host->runtime->registry()), *to); });
}

int32_t kinora_embed_add_plugin(kinora_embed* host, kinora_plugin_entry_fn entry, const char* manifest) {
  return guard([&] { or_throw(host->runtime->registry().add(entry, manifest)); });
}

}  // extern "C"

}  // namespace kinora::core::embed
