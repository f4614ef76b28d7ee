// The C API for programs that embed libkinora (kinora/embed.h).
#include "core/embed/embed.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <thread>

#include "core/base/cancel.hpp"
#include "core/base/log.hpp"
#include "core/base/paths.hpp"
#include "core/build_info.hpp"
#include "core/config/document.hpp"
#include "core/plugin/host.hpp"
#include "core/run/call.hpp"
#include "core/run/load_run.hpp"
#include "core/run/runner.hpp"
#include "core/run/stage_chain.hpp"
#include "core/workers/service.hpp"
#include "kinora/sample.hpp"

struct kinora_embed {
  std::unique_ptr<kinora::core::Runtime> runtime;
  void (*log)(void*, int32_t, kinora_str) = nullptr;
  void* user = nullptr;
  std::mutex mutex;
  std::string last_error;  // of the log, guarded by mutex: what a run that failed has said
  std::atomic<bool> is_busy = false;

  void forget() {
    const std::scoped_lock lock(mutex);
    last_error.clear();
  }
  void line(int32_t level, std::string_view text) {
    if (level == KINORA_LOG_ERROR) {
      const std::scoped_lock lock(mutex);
      last_error = text;
    }
    if (log) log(user, level, kinora::str(text));
  }
};

namespace kinora::core {
namespace {

std::atomic<bool> has_open_host = false;

// Marks the host as busy: kinora_embed_cancel() has an effect meanwhile.
class Busy {
 public:
  explicit Busy(kinora_embed& host) : host_(host) {
    if (host.is_busy.exchange(true))
      throw Error(KINORA_ERROR_INVALID, "this host is running already; wait until that call returns");
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  ~Busy() {
    host_.is_busy = false;
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
                                          [&](const auto& job) { return job.name == options.only; });
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

void apply_chain(kinora_embed& host, const char* stages, kinora_sample* const* samples, uint64_t n,
                 const kinora_emit& to) {
  const json list = json::parse(stages, nullptr, false);
  if (list.is_discarded())
    throw Error(KINORA_ERROR_INVALID, "stages: not JSON; expected a list such as [\"video.probe\"]");
  Call call;
  kinora_run run = run_of(call);
  run.n_threads = static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency()));
  const std::string out = std::filesystem::current_path().string();
  run.out = str(out);
  StageChain chain(host.runtime->registry(), list, to, run);
  for (uint64_t i = 0; i < n; ++i) chain.process(Sample::borrow(samples[i]));
  chain.finish();
}

}  // namespace

Runtime& runtime_of(kinora_embed& host) { return *host.runtime; }

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
    const Busy busy(*host);
    run_file(*host, *options);
  });
}

void kinora_embed_cancel(kinora_embed* host) {
  if (host->is_busy) cancel();
}

int32_t kinora_embed_components(kinora_embed* host, const kinora_sink* to) {
  return guard([&] {
    const std::string text =
        components_json(host->runtime->registry()).dump(-1, ' ', false, json::error_handler_t::replace);
    to->write(to->self, text.data(), text.size());
  });
}

int32_t kinora_embed_apply(kinora_embed* host, const char* stages, kinora_sample* const* samples, uint64_t n,
                           const kinora_emit* to) {
  return guard([&] {
    const Busy busy(*host);
    apply_chain(*host, stages, samples, n, *to);
  });
}

}  // extern "C"

}  // namespace kinora::core
