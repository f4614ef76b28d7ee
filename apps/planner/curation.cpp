#include "apps/planner/curation.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/facts.hpp"
#include "core/base/quantity.hpp"
#include "core/base/suggest.hpp"

namespace kinora::core::plan {
namespace {

using engines::simulated::Kind;
using nlohmann::json;
namespace fs = std::filesystem;

// A number of at least 0 and at most 1e15; -1 if there is none.
double amount_in(const json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_number()) return -1;
  const double value = object[key];
  return value >= 0 && value <= 1e15 ? value : -1;
}

// The stage that `shown`, of live.json, describes; `stages`: those before it; `remedy`: if it took no sample.
Result<engines::simulated::Stage> stage_of(const json& shown, size_t stages, const fs::path& file,
                                           const char* remedy) {
  const json& cost = object_in(shown, "cost");
  engines::simulated::Stage out;
  out.name = text_in(shown, "name");
  double in = 0, made = 0, seconds = 0, workers = 0;
  balance::Need& need = out.cost.need;
  for (const auto& [of, key, to] : std::initializer_list<std::tuple<const json&, const char*, double&>>{
           {shown, "in", in},
           {shown, "out", made},
           {shown, "seconds", seconds},
           {cost, "deviation", out.deviation},
           {cost, "starting", out.starting},
           {cost, "asked", workers},
           {cost, "cpus", need.cores},
           {cost, "gpus", need.gpus},
           {cost, "memory", need.memory},
           {cost, "nvdec", need.nvdec},
           {cost, "nvenc", need.nvenc}})
    if ((to = amount_in(of, key)) < 0)
      return fail(
          KINORA_ERROR_INVALID,
          "{}: stage '{}' has no '{}', as if an earlier version had written it; run the job once more",
          file.string(), out.name, key);
  if (!(in > 0))
    return fail(KINORA_ERROR_INVALID, "{}: stage '{}' took no sample in that run, so its cost is unknown; {}",
                file.string(), out.name, remedy);
  for (const json& from : cost.value("from", json::array())) {
    const double index = from.is_number_unsigned() ? from.get<double>() : 1e15;
    if (!(index < static_cast<double>(stages)))
      return fail(KINORA_ERROR_INVALID, "{}: damaged; run the job once more", file.string());
    out.cost.from.push_back(static_cast<uint32_t>(index));
  }
  out.ordered = flag_in(cost, "ordered");
  out.cost.seconds = seconds / in, out.cost.out = made / in;
  out.cost.workers = static_cast<int64_t>(std::min(workers, 256.0));
  if (out.cost.workers > 0)
    need.cores = std::max(need.cores, 1.0);  // that run may have had fewer cores than workers
  return out;
}

// By what the mean work of an input may be off, since a run has finitely many samples.
double error_of(const std::vector<engines::simulated::Stage>& stages, const json& shown) {
  std::vector<balance::Stage> costs;
  for (const auto& s : stages) costs.push_back(s.cost);
  const auto work = balance::work_of(costs);
  double squares = 0, all = 0;
  for (size_t i = 0; i < work.size(); ++i) {
    all += work[i];
    if (costs[i].seconds <= 0) continue;
    const double share = stages[i].deviation / costs[i].seconds;
    squares += work[i] * work[i] * share * share / number_in(shown[i], "in");
  }
  return all > 0 ? std::sqrt(squares) / all : 0;
}

// "cpus=64" of a node.
Status set_of_node(std::string_view pair, Kind& kind) {
  static const std::vector<std::string> names{"cpus", "gpus", "memory", "network", "nvdec", "nvenc"};
  const std::string key(pair.substr(0, pair.find('=')));
  const std::string_view value = key.size() < pair.size() ? pair.substr(key.size() + 1) : "";
  if (std::find(names.begin(), names.end(), key) == names.end())
    return fail(KINORA_ERROR_INVALID, "unknown '{}'{}", key, did_you_mean_or_list(key, names, "there are"));
  if (key == "memory" || key == "network") {
    const auto bytes = parse_size(value);
    if (!bytes) return bytes.failure();
    (key == "memory" ? kind.node.memory : kind.network) = static_cast<double>(*bytes);
    return {};
  }
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < 0 || number > 100000)
    return fail(KINORA_ERROR_INVALID, "{} is '{}', and must be a whole number", key, value);
  if (key == "gpus")
    kind.node.gpus = number;
  else
    (key == "cpus"    ? kind.node.cores
     : key == "nvdec" ? kind.node.nvdec
                      : kind.node.nvenc) = static_cast<double>(number);
  return {};
}

// "1000x{cpus=64,memory=512GiB}"
Result<Kind> parse_kind(std::string_view text) {
  Kind out;
  out.node.nvdec = out.node.nvenc = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.count);
  std::string_view rest = text.substr(static_cast<size_t>(end - text.data()));
  if (error != std::errc() || out.count < 1 || out.count > 100000 || !rest.starts_with("x{") ||
      !rest.ends_with('}'))
    return fail(KINORA_ERROR_INVALID,
                "expected NODESx{{cpus=..,gpus=..,memory=..}}, and at most 100000 nodes");
  for (rest = rest.substr(2, rest.size() - 3); !rest.empty();) {
    const std::string_view pair = rest.substr(0, rest.find(','));
    if (const Status set = set_of_node(pair, out); !set) return set.failure();
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
  }
  if (!(out.node.cores > 0) || !(out.node.memory > 0))
    return fail(KINORA_ERROR_INVALID, "a node needs cpus and memory");
  out.node.memory *= 0.75;
  for (double* coders : {&out.node.nvdec, &out.node.nvenc})
    if (*coders < 0) *coders = static_cast<double>(std::max<int64_t>(1, out.node.gpus));
  return out;
}

// The first resource of which the stage takes more than a node has.
std::optional<size_t> lacks(const Kind& kind, const engines::simulated::Stage& stage) {
  for (size_t r = 0; r < balance::kResources; ++r)
    if (balance::of(stage.cost.need, r) > balance::of(kind.node, r) + 1e-9 &&
        !(r == 0 && stage.cost.workers > 0))
      return r;
  return std::nullopt;
}

// Returns whether every node can run all stages; each must fit on one of them.
Result<bool> check_fits(const MeasuredJob& of, const std::vector<Kind>& kinds) {
  static constexpr const char* kNames[balance::kResources] = {"cpus", "bytes of memory", "gpus", "nvdec",
                                                              "nvenc"};
  bool all = true;
  for (const auto& stage : of.job.stages) {
    const auto fit =
        std::count_if(kinds.begin(), kinds.end(), [&](const Kind& kind) { return !lacks(kind, stage); });
    all = all && fit == static_cast<std::ptrdiff_t>(kinds.size());
    if (fit > 0) continue;
    const size_t r = *lacks(kinds.front(), stage);
    return fail(
        KINORA_ERROR_INVALID,
        "plan: stage '{}' takes {:g} {}, and a node has {:g} for it; add nodes that have what it takes",
        stage.name, balance::of(stage.cost.need, r), kNames[r], balance::of(kinds.front().node, r));
  }
  return all;
}

std::string hours_of(double hours) {
  return hours >= 48        ? fmt::format("{:.1f} days", hours / 24)
         : hours >= 1       ? fmt::format("{:.2f} h", hours)
         : hours >= 1. / 60 ? fmt::format("{:.1f} min", hours * 60)
                            : fmt::format("{:.1f} s", hours * 3600);
}

// A whole number, or three digits of a small one.
std::string amount_of(double number) {
  return number < 100 ? fmt::format("{:.3g}", number) : fmt::format("{:.0f}", number);
}

// Says how precise the costs are that `measured` videos gave.
std::string trust_in(const MeasuredJob& of) {
  return of.measured > 1 ? fmt::format("with so many they are right within {:.1f} % at best", 100 * of.error)
                         : "how right they are, only more videos tell";
}

}  // namespace

Result<MeasuredJob> measured_job(const RunFile& run, const JobSpec& job) {
  const fs::path folder = run.out / job.name, file = folder / "live.json";
  const json live = object_in_file(file), summary = object_in_file(folder / "summary.json");
  const json stages = live.value("stages", json());
  if (summary.empty() || !stages.is_array() || stages.empty())
    return fail(
        KINORA_ERROR_NOT_FOUND,
        "plan: {} has no finished run of '{}', whose stages' costs the plan is made of; first run it on some "
        "videos, on one node of the cluster: kinora run {} --only {}",
        folder.string(), job.name, run.file.string(), job.name);
  MeasuredJob out;
  out.name = job.name;
  // The process that puts a shared job together has run none of what others did.
  const bool is_shared = job.options.value("lease", 0.0) > 0 || amount_in(stages[0], "in") <= 0;
  const char* remedy = is_shared ? "run it without lease on one node" : "run the job on more videos";
  for (const json& shown : stages) {
    auto stage = stage_of(shown, out.job.stages.size(), file, remedy);
    if (!stage) return stage.failure();
    out.job.stages.push_back(std::move(*stage));
  }
  out.measured = static_cast<int64_t>(std::max(0.0, amount_in(live, "inputs")));
  out.job.inputs = static_cast<int64_t>(std::max(0.0, amount_in(summary, "inputs")));
  const double times = flag_in(job.options, "hash") ? 2 : 1;  // it reads every video once more
  const double bytes =
      times * std::max(0.0, amount_in(summary, "bytes_in")) + std::max(0.0, amount_in(summary, "bytes_kept"));
  if (out.job.inputs > 0) out.job.bytes = bytes / static_cast<double>(out.job.inputs);
  out.error = error_of(out.job.stages, stages);
  return out;
}

Result<std::vector<Kind>> parse_nodes(std::string_view text) {
  std::vector<Kind> out;
  for (std::string_view rest = text;;) {
    const std::string_view one = rest.substr(0, rest.find('+'));
    auto kind = parse_kind(one);
    if (!kind)
      return fail(KINORA_ERROR_INVALID, "cluster '{}': {}; such as 1000x{{cpus=64,gpus=8,memory=512GiB}}",
                  text, kind.failure().message);
    out.push_back(std::move(*kind));
    if (one.size() == rest.size()) return out;
    rest.remove_prefix(one.size() + 1);
  }
}

Result<CurationPlan> plan_curation(MeasuredJob of, int64_t inputs, const std::string& cluster,
                                   const engines::simulated::Surroundings& around) {
  const auto kinds = parse_nodes(cluster);
  if (!kinds) return kinds.failure();
  const auto alone = check_fits(of, *kinds);
  if (!alone) return alone.failure();
  if (!*alone && (around.failures > 0 || around.drains > 0))
    return fail(
        KINORA_ERROR_INVALID,
        "plan: --failures and --drains are of nodes that run all stages by themselves, which some of '{}' "
        "cannot; leave those out, or the options",
        cluster);
  if (inputs < 1)
    return fail(KINORA_ERROR_INVALID, "plan: that run had no videos; give their number, --inputs");
  CurationPlan out;
  out.of = std::move(of);
  out.of.job.inputs = inputs;
  out.cluster = cluster;
  out.around = around;
  for (const Kind& kind : *kinds) out.nodes += kind.count;
  g_host = kinora_core_host();  // of the scheduler, which is in this program and not in a plugin
  try {
    out.bound = engines::simulated::bound_of(out.of.job, *kinds, around);
    out.together = engines::simulated::run_together(out.of.job, *kinds, 1);
    out.alone = *alone;
    if (*alone)
      out.run = engines::simulated::run_cluster(out.of.job, *kinds, around, 1);
    else
      out.run.seconds = 3600 * out.together_hours();
  } catch (const Error& e) {
    return fail(e.code(), "plan: {}", e.what());
  }
  return out;
}

std::string text_of(const CurationPlan& plan) {
  const MeasuredJob& of = plan.of;
  const auto& run = plan.run;
  std::string out = fmt::format(
      "{}: {} videos, {:.4g} TB read and written, on {}\n"
      "costs are those of a run of {}; {}\n",
      of.name, of.job.inputs, static_cast<double>(of.job.inputs) * of.job.bytes / 1e12, plan.cluster,
      counted(of.measured, "video", "videos"), trust_in(of));
  out += fmt::format("  simulated   {}, {:.3f} of the bound\n", hours_of(plan.hours()),
                     plan.bound_hours() / plan.hours());
  if (plan.alone && plan.nodes > 1)
    out +=
        fmt::format("  engine/ray  {}, with one scheduler for all nodes\n", hours_of(plan.together_hours()));
  if (!plan.alone)
    out += "              by engine/ray: some nodes cannot run all stages, so samples go from node to node\n";
  out += fmt::format("  bound       {}: nothing is faster on these nodes at these costs\n",
                     hours_of(plan.bound_hours()));
  out += fmt::format("  limited by  {}{}\n", plan.bound.limit,
                     plan.bound.stage.empty() ? "" : ", of which " + plan.bound.stage + " needs most");
  if (plan.around.failures > 0 || plan.around.drains > 0)
    out += fmt::format(
        "  lost        {} nodes fail and {} are drained; {:.2f} % of the videos are done again\n", run.failed,
        run.drained, 100 * static_cast<double>(run.redone) / static_cast<double>(of.job.inputs));
  out += fmt::format("  cost        {} node-hours", amount_of(plan.node_hours()));
  if (plan.price > 0)
    out += fmt::format(", {} at {:g} each", amount_of(plan.price * plan.node_hours()), plan.price);
  out += "\n\nstage                      s a sample  deviation  samples a video  s a video\n";
  std::vector<balance::Stage> costs;
  for (const auto& s : of.job.stages) costs.push_back(s.cost);
  const auto work = balance::work_of(costs);
  for (size_t i = 0; i < work.size(); ++i)
    out += fmt::format("{:<26} {:>10.3g} {:>10.3g} {:>16.3g} {:>10.3g}\n", of.job.stages[i].name,
                       costs[i].seconds, of.job.stages[i].deviation,
                       costs[i].seconds > 0 ? work[i] / costs[i].seconds : 0.0, work[i]);
  return out;
}

json json_of(const CurationPlan& plan) {
  json stages = json::array();
  for (const auto& s : plan.of.job.stages)
    stages.push_back(
        {{"name", s.name}, {"seconds", s.cost.seconds}, {"deviation", s.deviation}, {"out", s.cost.out}});
  return {{"job", plan.of.name},
          {"cluster", plan.cluster},
          {"nodes", plan.nodes},
          {"inputs", plan.of.job.inputs},
          {"bytes_per_input", plan.of.job.bytes},
          {"measured_inputs", plan.of.measured},
          {"error", plan.of.error},
          {"hours", plan.hours()},
          {"bound_hours", plan.bound_hours()},
          {"of_bound", plan.bound_hours() / plan.hours()},
          {"together_hours", plan.together_hours()},
          {"alone", plan.alone},
          {"limit", plan.bound.limit},
          {"limit_stage", plan.bound.stage},
          {"failed_nodes", plan.run.failed},
          {"drained_nodes", plan.run.drained},
          {"redone_inputs", plan.run.redone},
          {"node_hours", plan.node_hours()},
          {"cost", plan.price * plan.node_hours()},
          {"stages", stages}};
}

}  // namespace kinora::core::plan
