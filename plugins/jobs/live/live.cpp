#include "plugins/jobs/live/live.hpp"

#include <algorithm>
#include <ctime>

#include <fmt/format.h>

#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/io/atomic_file.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

double number(const json& of, const char* name) {
  const auto it = of.find(name);
  return it != of.end() && it->is_number() ? it->get<double>() : 0;
}

std::string text_of(const json& of, const char* name) {
  const auto it = of.find(name);
  return it != of.end() && it->is_string() ? it->get<std::string>() : "";
}

std::string label(const std::string& value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

// One metric of the exposition: its help and type, then its samples.
struct Family {
  const char *name, *type, *help, *member;
};
constexpr Family kStages[] = {
    {"kinora_stage_samples_in_total", "counter", "Samples that the stage has taken", "in"},
    {"kinora_stage_samples_out_total", "counter", "Samples that the stage has emitted", "out"},
    {"kinora_stage_dropped_total", "counter", "Samples that the stage has filtered", "dropped"},
    {"kinora_stage_failed_total", "counter", "Samples that failed in the stage", "failed"},
    {"kinora_stage_retried_total", "counter", "Retries of samples", "retried"},
    {"kinora_stage_errors_after_total", "counter", "Errors over samples that had ended", "errors_after"},
    {"kinora_stage_processes_died_total", "counter", "Worker processes that died", "died"},
    {"kinora_stage_redone_total", "counter", "Calls that were lost with their node", "redone"},
    {"kinora_stage_seconds_total", "counter", "Seconds of work, all workers together", "seconds"},
    {"kinora_stage_rate", "gauge", "Samples taken per second since the last report", "rate"},
    {"kinora_stage_busy", "gauge", "Busy workers since the last report", "busy"},
    {"kinora_stage_workers", "gauge", "Number of workers", "workers"},
    {"kinora_stage_workers_needed", "gauge", "Workers that the stage's share of the work needs", "wanted"},
    {"kinora_stage_queue", "gauge", "Samples waiting for the stage", "queue"}};

// Metrics of a cluster's nodes.
constexpr Family kNodes[] = {{"kinora_node_cores_used", "gauge", "Cores that stages use", "cores_used"},
                             {"kinora_node_gpus_used", "gauge", "GPUs that stages use", "gpus_used"},
                             {"kinora_node_workers", "gauge", "Number of workers on the node", "workers"},
                             {"kinora_node_bytes", "gauge", "Bytes of samples on the node", "bytes"}};

// Metrics of stages that query servers: member "usage" of live.json, for this run alone.
constexpr Family kUsage[] = {
    {"kinora_stage_requests_total", "counter", "Requests that a server has answered in this run", "requests"},
    {"kinora_stage_prompt_tokens_total", "counter", "Prompt tokens sent in this run", "prompt_tokens"},
    {"kinora_stage_completion_tokens_total", "counter", "Completion tokens of this run", "completion_tokens"},
    {"kinora_stage_cost_total", "counter", "Cost of the tokens, in the prices' currency", "cost"}};

// Metrics of a training's last step.
constexpr Family kTraining[] = {
    {"kinora_train_step", "gauge", "Steps that are done", "step"},
    {"kinora_train_loss", "gauge", "Loss of the step", "loss"},
    {"kinora_train_gradient_norm", "gauge", "Norm of the step's gradient before clipping", "gradient_norm"},
    {"kinora_train_learning_rate", "gauge", "Learning rate of the step", "learning_rate"},
    {"kinora_train_samples_per_second", "gauge", "Samples per second of all ranks", "samples_per_second"},
    {"kinora_train_tokens_per_second", "gauge", "Tokens per second of all ranks", "tokens_per_second"}};

// Metrics of the loading of data, for this process and this run alone.
constexpr Family kLoading[] = {
    {"kinora_data_samples_total", "counter", "Samples read, those in place of others included", "samples"},
    {"kinora_data_failed_total", "counter", "Samples that could not be used, each counted once", "failed"},
    {"kinora_data_too_short_total", "counter", "Samples with too few frames, each counted once", "too_short"},
    {"kinora_data_wait_seconds_total", "counter", "Seconds for which samples were waited for", "waited"},
    {"kinora_data_queue", "gauge", "Samples that are read ahead and not yet asked for", "ready"},
    {"kinora_data_ahead_bytes_peak", "gauge", "Most bytes of samples read ahead at once", "ahead_peak"},
    {"kinora_data_cache_hits_total", "counter", "Reads that the cache on disk answered", "cache_hits"},
    {"kinora_data_latent_hits_total", "counter", "Windows whose latents were in the latent cache",
     "latent_hits"},
    {"kinora_data_cache_bytes_total", "counter", "Bytes that came from the cache on disk", "cache_bytes"}};

// Metrics of the loading of data that have one value for each member of an object.
struct Group {
  const char *name, *type, *help, *member, *label;
};
constexpr Group kLoadingGroups[] = {
    {"kinora_data_bytes_total", "counter", "Bytes read from each set, by its path", "bytes", "source"},
    {"kinora_data_dropped_total", "counter", "Samples that a transform's rule dropped, each counted once",
     "dropped", "rule"},
    {"kinora_data_left_out", "gauge", "Samples of the sets that part or where leaves out", "left_out", "by"}};

void add_head(std::string& out, const char* name, const char* type, const char* help) {
  out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void add_one(std::string& out, const char* name, const char* type, const char* help, const std::string& job,
             double value) {
  add_head(out, name, type, help);
  out += fmt::format("{}{{job=\"{}\"}} {:.17g}\n", name, label(job), value);
}

// A sample of each family for each one of `of`, an object of figures or an array of figures with a name.
template <size_t N>
void add_each(std::string& out, const Family (&families)[N], const std::string& job, const char* kind,
              const json& of) {
  for (const Family& family : families) {
    std::string lines;
    for (const auto& [key, one] : of.items())
      if (one.is_object() && one.contains(family.member))
        lines += fmt::format("{}{{job=\"{}\",{}=\"{}\"}} {:.17g}\n", family.name, label(job), kind,
                             label(of.is_array() ? text_of(one, "name") : key), number(one, family.member));
    if (lines.empty()) continue;
    add_head(out, family.name, family.type, family.help);
    out += lines;
  }
}

void add_loading(std::string& out, const std::string& job, const json& loading) {
  for (const Family& family : kLoading)
    add_one(out, family.name, family.type, family.help, job, number(loading, family.member));
  for (const Group& group : kLoadingGroups) {
    add_head(out, group.name, group.type, group.help);
    const json of = loading.value(group.member, json::object());
    for (const auto& [value, count] : of.items())
      out += fmt::format("{}{{job=\"{}\",{}=\"{}\"}} {:.17g}\n", group.name, label(job), group.label,
                         label(value), number(of, value.c_str()));
  }
}

}  // namespace

std::string prometheus_text(const std::string& job, const json& live) {
  std::string out;
  const json memory = live.value("memory", json::object());
  add_one(out, "kinora_job_inputs", "gauge", "Inputs of the job", job, number(live, "total"));
  add_one(out, "kinora_job_inputs_done_total", "counter", "Inputs that have ended", job,
          number(live, "done"));
  add_one(out, "kinora_job_made_done_total", "counter", "Samples made from inputs that have ended", job,
          number(live, "made"));
  add_one(out, "kinora_job_ended", "gauge", "1 when the job has ended", job,
          live.value("ended", false) ? 1 : 0);
  add_one(out, "kinora_job_updated_seconds", "gauge",
          "Time when these figures were written, in seconds since 1970", job, number(live, "updated"));
  add_one(out, "kinora_job_seconds_total", "counter", "Seconds since the job began", job,
          number(live, "seconds"));
  add_one(out, "kinora_job_sample_bytes", "gauge", "Bytes of samples in the engine", job,
          number(memory, "used"));
  add_one(out, "kinora_job_sample_bytes_peak", "gauge", "Peak bytes of samples in the engine so far", job,
          number(memory, "peak"));
  add_one(out, "kinora_job_nodes_lost_total", "counter", "Nodes lost", job, number(live, "nodes_lost"));
  add_one(out, "kinora_job_rate_expected", "gauge",
          "Inputs per second that the stages' times allow; 0: not known yet", job, number(live, "expected"));
  const json stages = live.value("stages", json::array());
  add_each(out, kStages, job, "stage", stages);
  add_head(out, "kinora_stage_bound", "gauge", "1 for the stage that limits the job");
  for (const json& stage : stages)
    out +=
        fmt::format("kinora_stage_bound{{job=\"{}\",stage=\"{}\"}} {}\n", label(job),
                    label(text_of(stage, "name")), text_of(stage, "name") == text_of(live, "bound") ? 1 : 0);
  add_each(out, kUsage, job, "stage", live.value("usage", json::object()));
  add_each(out, kNodes, job, "node", live.value("nodes", json::array()));
  return out;
}

std::string training_text(const std::string& job, int64_t steps, const json& line, const json& loading,
                          double updated) {
  std::string out;
  add_one(out, "kinora_train_steps", "gauge", "Steps of the whole training", job, static_cast<double>(steps));
  for (const Family& family : kTraining)
    if (line.contains(family.member))
      add_one(out, family.name, family.type, family.help, job, number(line, family.member));
  if (loading.is_object()) add_loading(out, job, loading);
  add_one(out, "kinora_job_ended", "gauge", "1 when the job has ended", job, 0);
  add_one(out, "kinora_job_updated_seconds", "gauge",
          "Time when these figures were written, in seconds since 1970", job, updated);
  return out;
}

void Live::update(json figures, int64_t done, int64_t made) {
  if (!figures.is_object()) return;
  figures_ = std::move(figures);
  figures_.update({{"job", job_}, {"total", total_}, {"done", done}, {"made", made}, {"ended", false}});
  write_all();
}

void Live::end(const std::string& how) {
  if (!figures_.is_object()) return;
  figures_.update({{"ended", true}, {"status", how}});
  figures_.erase("nodes");
  for (auto& stage : figures_["stages"])
    if (stage.is_object()) stage.update({{"workers", 0}, {"busy", 0}, {"rate", 0}});
  write_all();
}

void Live::write_all() {
  figures_["at"] = now_utc();
  figures_["updated"] = static_cast<double>(std::time(nullptr));
  write("live.json", figures_.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
  write("metrics.prom", prometheus_text(job_, figures_));
}

void Live::update_training(const json& line, const json& loading) {
  write("metrics.prom", training_text(job_, total_, line, loading, static_cast<double>(std::time(nullptr))));
}

void Live::write(const char* name, const std::string& text) {
  const auto status = write_file_atomically(folder_ / name, text);
  if (status || said_ || status.failure().code == KINORA_ERROR_CANCELLED) return;
  said_ = true;
  log_warn("{}: {}; the job continues without it", job_, status.failure().message);
}

}  // namespace kinora::core
