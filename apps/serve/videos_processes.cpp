// The processes of a server's models: each starts, ends, and starts again.
#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "apps/serve/videos_model.hpp"
#include "core/base/log.hpp"

namespace kinora::serve {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr const char* kWait = "1000000";  // seconds that ranks wait for the next video
constexpr int64_t kLongestPause = 60;     // seconds between starts of a model that cannot be loaded

}  // namespace

void Videos::start(Model& model) {
  const auto& of = model.settings;
  const fs::path out = settings_.folder / "models" / of.name;
  fs::create_directories(out);
  std::vector<std::string> arguments{program_.string()};
  if (of.ranks > 1)
    arguments.insert(arguments.end(), {"launch", "-n", std::to_string(of.ranks), "--logs",
                                       (out / "ranks").string(), "--timeout", kWait, "--"});
  arguments.emplace_back("generate");
  const bool is_folder = fs::is_directory(of.pipeline);
  if (is_folder) arguments.emplace_back("--pipeline");
  arguments.push_back(of.pipeline.string());
  if (!of.job.empty()) arguments.insert(arguments.end(), {"--job", of.job});
  const std::string job = is_folder || of.job.empty() ? "" : of.job + ".";
  for (const auto& option : of.set)
    arguments.insert(arguments.end(), {"--set", option.starts_with(job) ? option : job + option});
  arguments.insert(arguments.end(), {"--prompt", "", "--name", "serve"});
  // A run file's own folder has the finished jobs that its generate job reads.
  if (is_folder)
    arguments.insert(arguments.end(), {"--out", out.string()});
  else
    arguments.emplace_back("--needs-finished");
  model.process = std::make_unique<ModelProcess>(
      ModelCommand{of.name, std::move(arguments), log_of(of.name)},
      [this, &model](const json& message) { take(model, message); },
      [this, &model](const std::string& why) { end(model, why); });
  ++model.processes;
  core::log_info("model '{}': process {} starts", of.name, model.process->pid());
}

void Videos::end(Model& model, const std::string& why) {
  std::function<void()> tell_viewer;
  {
    const std::scoped_lock lock(mutex_);
    if (is_stopping_) return;
    if (!model.is_hung) model.broken = why;
    if (model.was_loaded) {
      tell_viewer = lose_live(model);
      lose_videos(model);
      plan_restart(model);
    }
    changed_.notify_all();
  }
  if (tell_viewer) tell_viewer();
}

// The videos that its process made are begun again, once.
void Videos::lose_videos(Model& model) {
  for (const std::string& id : std::exchange(model.at_work, {})) {
    if (!making_[id].is_removed) {
      save(id, [this, id] { store_.requeue(id); });
      continue;
    }
    std::error_code ignored;
    fs::remove_all(folder_of(id), ignored);
    making_.erase(id);
    ++counts_["cancelled"];
  }
}

void Videos::plan_restart(Model& model) {
  model.failures = model.defaults.is_null() ? model.failures + 1 : 0;
  const int64_t pause = model.failures == 0
                            ? 0
                            : std::min(kLongestPause, int64_t{1} << std::min<int64_t>(model.failures - 1, 6));
  model.again = steady_clock::now() + std::chrono::seconds(pause);
  model.defaults = json();
  model.answers.clear();
  model.is_hung = false;
  model.is_gone = true;
  core::log_error("model '{}': its process is gone: {}; it starts again in {} s; {}", model.settings.name,
                  model.broken, pause, log_of(model.settings.name).string());
}

void Videos::start_again(std::unique_lock<std::mutex>& lock) {
  for (auto& [_, model] : models_) {
    if (!model->is_gone || steady_clock::now() < model->again) continue;
    auto old = std::move(model->process);
    lock.unlock();  // its thread may wait for it
    old.reset();
    lock.lock();
    if (is_stopping_) return;
    try {
      start(*model);
      model->is_gone = false;
    } catch (const std::exception& e) {
      model->broken = e.what();
      plan_restart(*model);
    }
  }
}

// At the second look: after a sleep of the whole machine, the first one comes before any sign of life.
void Videos::end_hung() {
  const auto silence = static_cast<double>(settings_.silence);
  // Its GPU may hang while it beats: then it ends no video that is deleted.
  const auto is_deleted = [&](const std::string& id) {
    const auto at = making_.find(id);
    return at != making_.end() && at->second.is_removed && since(at->second.removed) >= silence;
  };
  for (auto& [name, model] : models_) {
    if (model->is_gone || model->is_hung) continue;
    const bool is_deaf = !model->at_work.empty() && std::ranges::all_of(model->at_work, is_deleted);
    const bool is_silent = is_deaf || model->process->silence() >= silence;
    if (!std::exchange(model->is_silent, is_silent) || !is_silent) continue;
    model->broken = fmt::format("it {} for {} s", is_deaf ? "made a deleted video" : "gave no sign of life",
                                settings_.silence);
    core::log_error("model '{}': {}; its process is ended", name, model->broken);
    model->is_hung = true;
    model->process->stop(0);
  }
}

}  // namespace kinora::serve
