#include "plugins/engines/common/simulated/node.hpp"

#include <map>

#include "plugins/engines/common/balance/bound.hpp"
#include "plugins/engines/common/simulated/random.hpp"
#include "plugins/engines/common/task.hpp"

namespace kinora::engines::simulated {
namespace {

constexpr int kIdle = 1000;  // successive waits in which nothing happens: the run would never end

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

  void at(double seconds, std::function<void()> work) { events_.emplace(after(now_, seconds), std::move(work)); }
  uint64_t draw(size_t stage, std::string_view key) const { return seed_of(key, seed_ + stage); }
  double work(size_t stage, uint64_t draw);
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
  double least() const;

  const std::vector<Stage>& stages_;
  const balance::Node node_;
  const int64_t inputs_;
  const uint64_t seed_;
  std::vector<double> worked_;  // seconds of each stage
  std::vector<kinora_stage_spec> specs_;
  Time now_{}, last_{};
  std::multimap<Time, std::function<void()>> events_;  // of one time: in the order of their arrival
  bool awake_ = false;
  int idle_ = 0;
  int64_t given_ = 0;
};

void Worker::send(Task& task) {
  const uint64_t draw = node_.draw(stage_, task.key);
  const int64_t n = node_.emissions(stage_, draw);
  const double each = node_.work(stage_, draw) / static_cast<double>(std::max<int64_t>(1, n));
  node_.at(each, [this, &task, n, each] { emit(task, 0, n, each); });
}

void Worker::emit(Task& task, int64_t next, int64_t n, double each) {
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

double VirtualNode::work(size_t stage, uint64_t draw) {
  const double seconds = log_normal(stages_[stage].cost.seconds, stages_[stage].deviation, draw);
  worked_[stage] += seconds;
  return seconds;
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

void VirtualNode::wait(double seconds) {
  const Time until = after(now_, seconds);
  while (!std::exchange(awake_, false)) {
    if (events_.empty() && ++idle_ > kIdle)
      throw Error(KINORA_ERROR_FAILED, "the simulated run does not end; please report this as a bug");
    if (events_.empty() || events_.begin()->first > until) {
      now_ = until;
      return;
    }
    idle_ = 0;
    now_ = std::max(now_, events_.begin()->first);
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
                                 [](void* self, kinora_sample** out) -> int32_t {
                                   VirtualNode& node = of(self);
                                   if (node.given_ == node.inputs_) return KINORA_SIGNAL_END;
                                   return guard([&] { *out = Sample(std::to_string(node.given_++)).release(); });
                                 },
                                 [](void* self, const kinora_outcome*) -> int32_t {
                                   of(self).last_ = of(self).now_;
                                   return KINORA_OK;
                                 },
                                 nullptr};
  run_to_end(pipeline);
  NodeRun out;
  out.seconds = seconds_between(Time{}, last_);
  out.least = least();
  for (const double seconds : worked_) out.work += seconds;
  return out;
}

void VirtualNode::run_to_end(const kinora_pipeline& pipeline) {
  kinora_run run{};
  run.struct_size = sizeof run;
  run.device_type = KINORA_DL_CPU;
  run.n_threads = 1;
  Settings settings;
  settings.total = {node_.cores, static_cast<double>(node_.gpus), static_cast<uint64_t>(node_.memory),
                    node_.nvdec, node_.nvenc};
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

double VirtualNode::least() const {
  std::vector<Stage> drawn = stages_;
  for (size_t i = 0; i < drawn.size(); ++i) {
    drawn[i].cost.from.clear();
    drawn[i].cost.seconds = worked_[i] / static_cast<double>(inputs_);
  }
  return static_cast<double>(inputs_) / most_per_second(drawn, {node_});
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
    if (workers > 0 && work[i] > 0) most = std::min(most, workers * static_cast<double>(nodes.size()) / work[i]);
    shared[i].workers = 0;  // idle ones leave their resources to other stages
    for (const balance::Node& node : nodes)  // requested workers run side by side (stage_state.cpp)
      if (stages[i].cost.workers > 0)
        shared[i].need.cores = std::min(shared[i].need.cores, node.cores / static_cast<double>(stages[i].cost.workers));
    for (size_t r = 0; r < balance::kResources; ++r)
      is_limited = is_limited || work[i] * balance::of(shared[i].need, r) > 0;
  }
  return is_limited ? std::min(most, linear_bound(shared, nodes)) : most;
}

NodeRun run_node(const std::vector<Stage>& stages, const balance::Node& node, int64_t inputs, uint64_t seed) {
  return VirtualNode(stages, node, inputs, seed).run();
}

}  // namespace kinora::engines::simulated
