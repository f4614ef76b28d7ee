// Pipelines for the tests of the engine: stages as lambdas, a source as a list, outcomes as a table.
#pragma once
#include <deque>
#include <functional>

#include <gtest/gtest.h>

#include "kinora/testing.hpp"
#include "plugins/engines/local/local_engine.hpp"

namespace kinora::local {

// A stage with the given process() and finish(); `made` counts its instances.
struct Act {
  std::string name;
  std::vector<uint32_t> from;
  std::function<void(Sample, const Emit&, const kinora::Run&)> process;
  std::function<void(const Emit&, const kinora::Run&)> finish = {};
  std::function<void(const kinora::Run&)> start = {};
  uint32_t batch = 0;  // resources.batch
  std::function<void(std::span<const Sample>, const Emit&, const kinora::Run&)> process_batch =
      {};  // none: process() of each
  bool ordered = false;
  int64_t workers = 0;
  double cores = 1, gpus = 0;
  uint32_t nvdec = 0, nvenc = 0;
  int start_ms = 0;  // time that making an instance takes
  std::atomic<int> made{0}, alive{0};
};

inline void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

class ActStage final : public Stage {
 public:
  explicit ActStage(Act* act) : act_(act) {
    ++act_->made;
    ++act_->alive;
    sleep_ms(act_->start_ms);
  }
  ~ActStage() override { --act_->alive; }
  void start(const kinora::Run& run) override {
    if (act_->start) act_->start(run);
  }
  void process(Sample in, const Emit& emit, const kinora::Run& run) override {
    act_->process(std::move(in), emit, run);
  }
  void process_batch(std::span<const Sample> in, const Emit& emit, const kinora::Run& run) override {
    if (act_->process_batch) return act_->process_batch(in, emit, run);
    for (const Sample& one : in) act_->process(one, emit, run);
  }
  void finish(const Emit& emit, const kinora::Run& run) override {
    if (act_->finish) act_->finish(emit, run);
  }
  kinora_resources resources() const override {
    return {sizeof(kinora_resources),
            act_->ordered ? 1u : 0u,
            act_->cores,
            act_->gpus,
            0,
            0,
            act_->nvdec,
            act_->nvenc,
            act_->batch};
  }
  struct Options {};
  explicit ActStage(const Options&) {}
  static void describe(Describe<Options>& d) { d.name("act"); }

 private:
  Act* act_ = nullptr;
};

// The table of ActStage, whose create() takes the Act in place of a host's options.
inline const kinora_stage* act_table() {
  static const kinora_stage table = [] {
    kinora_stage t = *static_cast<const kinora_stage*>(Stage::api<ActStage>());
    t.create = [](const kinora_host*, const kinora_options* o) -> void* {
      return static_cast<Stage*>(new ActStage(reinterpret_cast<Act*>(const_cast<kinora_options*>(o))));
    };
    return t;
  }();
  return &table;
}

struct Outcome {
  uint32_t end;
  std::string stage, reason;
  double score;
  int32_t status;
  bool consumed, made;
};

// Runs stages over inputs and keeps every outcome.
class Pipeline {
 public:
  std::deque<Act> stages;
  const kinora_stage* table = act_table();
  std::function<int32_t(kinora_sample**)> next;
  std::function<int32_t(const kinora_outcome&)> on_done;
  uint64_t memory = 0;
  std::string store;  // kinora_pipeline.store; empty: null
  int32_t threads = 4;
  LocalEngine::Options options{};
  // What runs it; null: engine/local.
  std::function<void(const kinora_pipeline&, const kinora::Run&)> engine{};
  void (*host)() = testing::start;
  std::vector<std::pair<std::string, Outcome>> outcomes;  // in the order of the reports
  std::vector<std::string> reports;
  testing::Run* cancel_through = nullptr;

  Act& add(std::string name, std::vector<uint32_t> from, decltype(Act::process) process) {
    auto& act = stages.emplace_back();
    act.name = std::move(name);
    act.from = std::move(from);
    act.process = std::move(process);
    return act;
  }
  // Inputs "0", "1", ... with a field "mp4" of the given size.
  void inputs(int64_t n, size_t bytes = 0) {
    next = [n, bytes, i = int64_t{0}](kinora_sample** out) mutable {
      if (i == n) return int32_t{KINORA_SIGNAL_END};
      Sample s(std::to_string(i++));
      if (bytes > 0) s.set("mp4", std::vector<uint8_t>(bytes, 1));
      *out = s.release();
      return int32_t{KINORA_OK};
    };
  }
  // The message of the error that ended the run, or "".
  std::string run() {
    host();
    std::vector<kinora_stage_spec> specs;
    for (auto& act : stages)
      specs.push_back({sizeof(kinora_stage_spec), static_cast<uint32_t>(act.from.size()), act.name.c_str(),
                       "stage/act", "{}", act.from.data(), table,
                       reinterpret_cast<const kinora_options*>(&act), act.workers});
    std::vector<const kinora_stage_spec*> pointers;
    for (const auto& spec : specs) pointers.push_back(&spec);
    const kinora_pipeline pipeline{
        sizeof(kinora_pipeline),
        static_cast<uint32_t>(specs.size()),
        pointers.data(),
        memory,
        this,
        [](void* self, kinora_sample** out) {
          auto& p = *static_cast<Pipeline*>(self);
          EXPECT_FALSE(p.pulling_.exchange(true)) << "next() is called by two threads at once";
          const int32_t status = p.next(out);
          p.pulling_ = false;
          return status;
        },
        [](void* self, const kinora_outcome* o) { return static_cast<Pipeline*>(self)->done(*o); },
        [](void* self, const char* text) { static_cast<Pipeline*>(self)->reports.emplace_back(text); },
        store.empty() ? nullptr : store.c_str()};
    testing::Run plain("", threads);
    const kinora::Run run =
        cancel_through ? static_cast<kinora::Run>(*cancel_through) : static_cast<kinora::Run>(plain);
    std::string error;
    try {
      engine ? engine(pipeline, run) : LocalEngine(options).run(pipeline, run);
    } catch (const Error& e) {
      code = e.code();
      error = e.what();
    }
    for (const auto& act : stages) EXPECT_EQ(act.alive, 0) << act.name << " has instances left";
    return error;
  }
  int32_t code = KINORA_OK;

  std::map<std::string, int> counts() const {
    std::map<std::string, int> out;
    for (const auto& [key, o] : outcomes)
      ++out[o.end == KINORA_OUTCOME_KEPT ? "kept" : o.end == KINORA_OUTCOME_FILTERED ? "filtered" : "failed"];
    return out;
  }

 private:
  int32_t done(const kinora_outcome& o) {
    EXPECT_FALSE(telling_.exchange(true)) << "done() is called by two threads at once";
    outcomes.emplace_back(std::string(view(samples_api().key(o.sample))),
                          Outcome{o.end, o.stage ? o.stage : "", o.reason ? o.reason : "", o.score, o.status,
                                  o.consumed != 0, o.made != 0});
    const int32_t status = on_done ? on_done(o) : KINORA_OK;
    telling_ = false;
    return status;
  }
  std::atomic<bool> pulling_{false}, telling_{false};
};

inline void pass(Sample in, const Emit& emit, const kinora::Run&) { emit(std::move(in)); }
inline void consume(Sample, const Emit&, const kinora::Run&) {}

}  // namespace kinora::local
