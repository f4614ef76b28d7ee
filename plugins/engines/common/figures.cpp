#include "plugins/engines/common/figures.hpp"

#include <algorithm>
#include <cmath>

namespace kinora::engines {
namespace {

using nlohmann::json;
constexpr size_t kBuffer = 1 << 16;

// What `kinora plan --curate` needs to know of a stage, beside its counts.
json cost_of(const StageState& stage) {
  const auto& f = stage.figures;
  const double n = std::max<double>(1, static_cast<double>(f.in)), mean = f.seconds / n;
  const Tokens& need = stage.need;
  return {{"from", std::vector<uint32_t>(stage.spec->from, stage.spec->from + stage.spec->n_from)},
          {"deviation", std::sqrt(std::max(0.0, f.squares / n - mean * mean))},
          {"starting", stage.starting},
          {"ordered", stage.in_order},
          {"asked", stage.spec->workers},
          {"cpus", need.cores},
          {"gpus", need.gpus},
          {"memory", need.memory},
          {"nvdec", need.nvdec},
          {"nvenc", need.nvenc}};
}

std::string text_of(const json& event) { return event.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

// The stage with most queued work: in seconds, or in samples while a time is unknown; else the busiest.
const StageState& Figures::most_behind(const std::vector<double>& busy) const {
  const bool known = std::all_of(scheduler_.stages().begin(), scheduler_.stages().end(),
                                 [](const auto& s) { return s->queue.empty() || s->waiting().has_value(); });
  const auto behind = [&](const StageState& stage) {
    return std::pair(known ? stage.waiting().value_or(0) : static_cast<double>(stage.queue.size()),
                     busy[stage.index] / static_cast<double>(stage.slots.size()));
  };
  return **std::max_element(scheduler_.stages().begin(), scheduler_.stages().end(),
                            [&](const auto& a, const auto& b) { return behind(*a) < behind(*b); });
}

// The limit of the run: a stage all of whose workers are busy while cores are free; all
// cores, and then the stage that uses most of them; the memory; the source, if the stages have nothing
// to do; or the stage with most queued work.
std::string Figures::bound(const std::vector<double>& busy, const Advice& advice) const {
  constexpr double kFull = 0.9;
  const StageState* most = nullptr;
  double all = 0;
  for (const auto& stage : scheduler_.stages()) {
    const double share = busy[stage->index] * stage->need.cores;
    all += share;
    if (!most || share > busy[most->index] * most->need.cores) most = stage.get();
  }
  for (size_t i = scheduler_.stages().size(); i-- > 0;) {
    const StageState& stage = *scheduler_.stages()[i];
    const auto workers = static_cast<double>(stage.slots.size());
    const bool cores_left = workers * stage.need.cores < kFull * scheduler_.total().cores;
    if (busy[i] >= kFull * workers && cores_left) return stage.spec->name;
  }
  if (most && all >= kFull * scheduler_.total().cores)
    return advice.bound() && advice.bound()->need.cores > 0 ? advice.bound()->spec->name : most->spec->name;
  if (scheduler_.waits_for_memory()) return "memory";
  const bool all_wait_for_it = std::all_of(scheduler_.stages().begin(), scheduler_.stages().end(),
                                           [](const auto& s) { return s->queue.empty(); });
  if (scheduler_.stages().empty() ||
      (!scheduler_.source.ended && (scheduler_.source.pulling || all_wait_for_it)))
    return "source";
  return most_behind(busy).spec->name;
}

// Of those that are there, with the workers that are made or being made.
json Figures::nodes() const {
  const Machine& machine = scheduler_.machine();
  std::vector<int64_t> workers(machine.nodes());
  for (const auto& stage : scheduler_.stages()) {
    if (stage->here) continue;
    for (const auto& slot : stage->slots) ++workers[slot->node];
    for (const auto& [turn, slot] : stage->free.all())
      if (!slot->instance) --workers[slot->node];
  }
  json out = json::array();
  for (size_t i = 0; i < machine.nodes(); ++i) {
    const size_t place = ledger_.place_of(i);
    if (!machine.has_lost(i))
      out.push_back({{"name", machine.of(i).name},
                     {"cores", machine.of(i).cores},
                     {"cores_used", machine.used(i).cores},
                     {"gpus", machine.of(i).gpus},
                     {"gpus_used", machine.used(i).gpus},
                     {"workers", workers[i]},
                     {"bytes", ledger_.samples().now(place)},
                     {"bytes_peak", ledger_.samples().peak(place)},
                     {"bytes_bound", ledger_.bound(place)}});
  }
  return out;
}

std::string Figures::at(double seconds, Advice& advice, Trace* trace) {
  nlohmann::json out;
  const double interval = std::max(1e-3, seconds - std::exchange(last_, seconds));
  out["seconds"] = seconds;
  out["inputs"] = scheduler_.source.pulled;
  out["cores"] = scheduler_.total().cores;
  out["memory"] = {{"used", ledger_.samples().now()},
                   {"peak", ledger_.samples().peak()},
                   {"beside", ledger_.beside().peak()},
                   {"bound", ledger_.bound()}};
  std::vector<double> busy(scheduler_.stages().size());
  for (const auto& stage : scheduler_.stages()) {
    const auto& f = stage->figures;
    const StageState::Figures last = std::exchange(figures_[stage->index], f);
    // A worker's time counts when its task ends, so over one interval it may exceed the number of workers.
    busy[stage->index] =
        std::clamp((f.seconds - last.seconds) / interval, static_cast<double>(stage->busy) / 2,
                   static_cast<double>(stage->slots.size()));
    out["stages"].push_back({{"name", stage->spec->name},
                             {"in", f.in},
                             {"out", f.out},
                             {"dropped", f.dropped},
                             {"failed", f.failed},
                             {"retried", f.retried},
                             {"died", f.died},
                             {"redone", f.redone},
                             {"errors_after", f.errors_after},
                             // A sample that finish() emits may be made of all inputs.
                             {"without_result", stage->finish_emitted > 0 ? 0 : f.without_result},
                             {"isolated", stage->isolated},
                             {"rate", static_cast<double>(f.in - last.in) / interval},
                             {"busy", busy[stage->index]},
                             {"active", stage->busy},
                             {"workers", stage->instances.load()},
                             {"limit", stage->slots.size()},
                             {"wanted", std::min(stage->wanted, stage->slots.size())},
                             {"seconds", f.seconds},
                             {"queue", stage->queue.size()},
                             {"cost", cost_of(*stage)}});
    if (trace)
      trace->counter(stage->spec->name, stage->queue.size(), stage->busy,
                     stage->index == 0 ? ledger_.samples().now() : 0);
  }
  out["bound"] = bound(busy, advice);
  if (!scheduler_.machine().of(0).name.empty()) {
    out["nodes"] = nodes();
    out["nodes_lost"] = scheduler_.machine().nodes() - out["nodes"].size();
  }
  advice.look(seconds);
  if (const double expected = advice.expected(); expected > 0) out["expected"] = expected;
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Trace::Trace(const std::string& uri, Clock now)
    : out_(Writer(uri)), buffer_("{\"displayTimeUnit\":\"ms\",\"traceEvents\":["), now_(std::move(now)) {}

void Trace::span(size_t stage, const char* name, size_t worker, std::string_view key, Time begin,
                 double waited, const char* result) {
  const Time end = now_();
  const json event{{"ph", "X"},
                   {"name", key},
                   {"cat", name},
                   {"pid", stage},
                   {"tid", worker},
                   {"ts", microseconds(begin)},
                   {"dur", 1e6 * seconds_between(begin, end)},
                   {"args", {{"waited", waited}, {"result", result}}}};
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!out_) return;
  if (named_.emplace(stage, worker).second) {
    add(text_of({{"ph", "M"}, {"name", "process_name"}, {"pid", stage}, {"args", {{"name", name}}}}));
    add(text_of({{"ph", "M"},
                 {"name", "thread_name"},
                 {"pid", stage},
                 {"tid", worker},
                 {"args", {{"name", "worker " + std::to_string(worker)}}}}));
  }
  add(text_of(event));
}

void Trace::counter(const char* stage, uint64_t queue, uint32_t busy, uint64_t bytes) {
  const double now = microseconds(now_());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!out_) return;
  add(text_of({{"ph", "C"},
               {"name", std::string("queue of ") + stage},
               {"pid", 0},
               {"ts", now},
               {"args", {{"waiting", queue}, {"busy", busy}}}}));
  if (bytes > 0)
    add(text_of(
        {{"ph", "C"}, {"name", "bytes of samples"}, {"pid", 0}, {"ts", now}, {"args", {{"bytes", bytes}}}}));
}

void Trace::add(const std::string& event) {
  if (!first_) buffer_ += ",\n";
  first_ = false;
  buffer_ += event;
  if (buffer_.size() < kBuffer) return;
  out_->write(buffer_);
  buffer_.clear();
}

void Trace::close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!out_) return;
  buffer_ += "]}\n";
  out_->write(buffer_);
  out_->commit();
  out_.reset();
}

}  // namespace kinora::engines
