#include "plugins/engines/common/simulated/node.hpp"

#include <map>

#include "plugins/engines/common/balance/bound.hpp"
#include "plugins/engines/common/simulated/random.hpp"
#include "plugins/engines/common/task.hpp"

namespace kinora::engines::simulated {
namespace {

constexpr double kFull = 0.25;  // of the run, so that NodeRun::steady means something
constexpr int kIdle = 1000;     // successive waits in which nothing happens: the run would never end

class VirtualNode;

// It works for the seconds that were drawn for the sample, and emits evenly over them.
class Worker final : public Instance {
 public:
  Worker(VirtualNode& node, size_t stage) : node_(node), stage_(stage) {}
  void send(Task& task) override;
  bool is_apart() const override { return false; }
  bool ended() const override { return false; }

 private:
  void emit(Task& task, int64_t next, int64_t n, double each);
  void go_on(Task& task, int64_t next, int64_t n, double each);

  VirtualNode& node_;
  const size_t stage_;
};

class VirtualNode final : public Executor {
 public:
  VirtualNode(const std::vector<Stage>& stages, const balance::Node& node, int64_t inputs, uint64_t seed)
      : stages_(stages), node_(node), inputs_(inputs), seed_(seed), worked_(stages.size()) {
    for (const Stage& s : stages)
      specs_.push_back({sizeof(kinora_stage_spec), static_cast<uint32_t>(s.cost.from.size()), s.name.c_str(),
                        "stage/simulated", "{}", s.cost.from.data(), nullptr, nullptr, s.cost.workers});
  }
  NodeRun run();

  void at(double seconds, std::function<void()> work) {
    events_.emplace(after(now_, seconds), std::move(work));
  }
  uint64_t draw(size_t stage, std::string_view key) const { return seed_of(key, seed_ + stage); }
  double seconds_of(size_t stage, uint64_t draw) const {
    return log_normal(stages_[stage].cost.seconds, stages_[stage].deviation, draw);
  }
  void did(size_t stage, double seconds) { worked_[stage] += seconds; }
  int64_t emissions(size_t stage, uint64_t draw) const;

  FirstInstance first(const kinora_stage_spec& spec) override;
  void start(const StageState& stage, const Slot&, Started started) override {
    at(stages_[stage.index].starting, [this, at = stage.index, started = std::move(started)] {
      started(std::make_unique<Worker>(*this, at), nullptr);
    });
  }
  void post(std::function<void()> work, bool) override { at(0, std::move(work)); }
  void wait(double seconds) override;
  void wake() override { awake_ = true; }

 private:
  void happen() { events_.extract(events_.begin()).mapped()(); }
  void run_to_end(const kinora_pipeline& pipeline);
  int32_t next(kinora_sample** out);
  double least(const std::vector<double>& worked) const;

  const std::vector<Stage>& stages_;
  const balance::Node node_;
  const int64_t inputs_;
  const uint64_t seed_;
  std::vector<double> worked_, while_full_;  // seconds of each stage; of them, those of NodeRun::steady
  std::vector<kinora_stage_spec> specs_;
  Time now_{}, third_{}, last_{};
  double full_ = 0;
  std::multimap<Time, std::function<void()>> events_;  // of one time: in the order of their arrival
  bool awake_ = false;
  int idle_ = 0;
  int64_t given_ = 0;
};

void Worker::send(Task& task) {
  const uint64_t draw = node_.draw(stage_, task.key);
  const int64_t n = node_.emissions(stage_, draw);
  const double each = node_.seconds_of(stage_, draw) / static_cast<double>(std::max<int64_t>(1, n));
  node_.at(each, [this, &task, n, each] { emit(task, 0, n, each); });
}

void Worker::emit(Task& task, int64_t next, int64_t n, double each) {
  node_.did(stage_, each);
  if (next < n) {
    task.room = [this, &task, next, n, each](bool granted) {
      node_.at(0, [this, &task, next, n, each, granted] {
        granted ? go_on(task, next + 1, n, each) : task.done(KINORA_ERROR_CANCELLED, "cancelled");
      });
    };
    try {
      Sample sample = n == 1 ? task.in->sample : Sample(task.key + "-" + std::to_string(next));
      if (!task.emit(std::move(sample))) return;
    } catch (const Error& e) {
      return task.done(e.code(), e.what());
    }
  }
  go_on(task, next + 1, n, each);
}

void Worker::go_on(Task& task, int64_t next, int64_t n, double each) {
  if (next >= n) return task.done(KINORA_OK, "");
  node_.at(each, [this, &task, next, n, each] { emit(task, next, n, each); });
}

int64_t VirtualNode::emissions(size_t stage, uint64_t draw) const {
  const double out = stages_[stage].cost.out, whole = std::floor(out);
  return static_cast<int64_t>(whole) + (uniform(draw + 1) < out - whole ? 1 : 0);
}

FirstInstance VirtualNode::first(const kinora_stage_spec& spec) {
  const auto at = static_cast<size_t>(&spec - specs_.data());
  const balance::Need& need = stages_[at].cost.need;
  FirstInstance out{};
  out.needs = {sizeof(kinora_resources),
               stages_[at].ordered ? 1u : 0u,
               need.cores,
               need.gpus,
               static_cast<uint64_t>(need.memory),
               0,
               static_cast<uint32_t>(std::lround(need.nvdec)),
               static_cast<uint32_t>(std::lround(need.nvenc)),
               1};
  out.instance = std::make_unique<Worker>(*this, at);
  out.starting = stages_[at].starting;
  return out;
}

// Returns late if nothing happens before: a look at the figures would find those of the last one.
void VirtualNode::wait(double seconds) {
  const Time until = after(now_, seconds);
  while (!std::exchange(awake_, false)) {
    if (events_.empty() && ++idle_ > kIdle)
      throw Error(KINORA_ERROR_FAILED, "the simulated run does not end; please report this as a bug");
    const Time next = events_.empty() ? until : events_.begin()->first;
    now_ = std::max(now_, next);
    if (events_.empty() || next > until) return;
    idle_ = 0;
    happen();
  }
}

NodeRun VirtualNode::run() {
  std::vector<const kinora_stage_spec*> pointers;
  for (const auto& spec : specs_) pointers.push_back(&spec);
  static constexpr auto of = [](void* self) -> VirtualNode& { return *static_cast<VirtualNode*>(self); };
  const kinora_pipeline pipeline{sizeof(kinora_pipeline),
                                 static_cast<uint32_t>(specs_.size()),
                                 pointers.data(),
                                 0,
                                 this,
                                 [](void* self, kinora_sample** out) { return of(self).next(out); },
                                 [](void* self, const kinora_outcome*) -> int32_t {
                                   of(self).last_ = of(self).now_;
                                   return KINORA_OK;
                                 },
                                 nullptr};
  run_to_end(pipeline);
  NodeRun out;
  out.seconds = seconds_between(Time{}, last_);
  out.least = least(worked_);
  for (const double seconds : worked_) out.work += seconds;
  if (full_ > kFull * out.seconds) out.steady = least(while_full_) / full_;
  return out;
}

int32_t VirtualNode::next(kinora_sample** out) {
  if (given_ == inputs_) return KINORA_SIGNAL_END;
  ++given_;
  if (given_ == (inputs_ + 2) / 3) third_ = now_, while_full_ = worked_;
  if (given_ == inputs_) {
    full_ = seconds_between(third_, now_);
    for (size_t i = 0; i < worked_.size(); ++i) while_full_[i] = worked_[i] - while_full_[i];
  }
  return guard([&] { *out = Sample(std::to_string(given_ - 1)).release(); });
}

void VirtualNode::run_to_end(const kinora_pipeline& pipeline) {
  kinora_run run{};
  run.struct_size = sizeof run;
  run.device_type = KINORA_DL_CPU;
  run.n_threads = 1;
  Settings settings;
  settings.nodes = {{node_.cores, static_cast<double>(node_.gpus), static_cast<uint64_t>(node_.memory),
                    node_.nvdec, node_.nvenc}};
  settings.now = [this] { return now_; };
  const Run of(&run);
  Runner runner(pipeline, of, settings, *this);
  try {
    runner.run();
  } catch (...) {
    runner.stop();
    while (!events_.empty()) happen();
    throw;
  }
}

// Seconds that any schedule takes for these seconds of each stage.
double VirtualNode::least(const std::vector<double>& worked) const {
  std::vector<Stage> all = stages_;
  for (size_t i = 0; i < all.size(); ++i) all[i].cost.from.clear(), all[i].cost.seconds = worked[i];
  return 1 / most_per_second(all, {node_});
}

}  // namespace

double most_per_second(const std::vector<Stage>& stages, const std::vector<balance::Node>& nodes) {
  std::vector<balance::Stage> shared;
  double most = std::numeric_limits<double>::infinity();
  bool is_limited = false;
  for (const Stage& s : stages) shared.push_back(s.cost);
  const std::vector<double> work = balance::work_of(shared);
  for (size_t i = 0; i < stages.size(); ++i) {
    const auto workers = static_cast<double>(stages[i].ordered ? 1 : stages[i].cost.workers);
    if (workers > 0 && work[i] > 0)
      most = std::min(most, workers * static_cast<double>(nodes.size()) / work[i]);
    shared[i].workers = 0;                   // idle ones leave their resources to other stages
    for (const balance::Node& node : nodes)  // requested workers run side by side (stage_state.cpp)
      if (stages[i].cost.workers > 0)
        shared[i].need.cores =
            std::min(shared[i].need.cores, node.cores / static_cast<double>(stages[i].cost.workers));
    for (size_t r = 0; r < balance::kResources; ++r)
      is_limited = is_limited || work[i] * balance::of(shared[i].need, r) > 0;
  }
  return is_limited ? std::min(most, linear_bound(shared, nodes)) : most;
}

NodeRun run_node(const std::vector<Stage>& stages, const balance::Node& node, int64_t inputs, uint64_t seed) {
  return VirtualNode(stages, node, inputs, seed).run();
}

}  // namespace kinora::engines::simulated
