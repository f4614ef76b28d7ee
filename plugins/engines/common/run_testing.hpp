// Runs in made-up time for tests: instances that follow a script, and an executor whose clock moves only when
// nothing else can happen. All happens on one thread, so a run of hours takes milliseconds and is the same every time.
#pragma once
#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "kinora/testing.hpp"
#include "plugins/engines/common/task.hpp"

namespace kinora::engines::made_up {

constexpr double kUntilCancelled = std::numeric_limits<double>::infinity();

// The script of one call.
struct Play {
  double seconds = 1;              // before it emits
  std::vector<std::string> emits;  // keys; that of the input is the input itself
  uint64_t bytes = 0;              // of each new sample
  bool holds = false;
  int32_t status = KINORA_OK;
  std::string message{};
  bool dies = false;
  std::map<std::string, std::string> parents{};  // of a batch: of each new sample
};

inline auto passing(double seconds) {
  return [seconds](const std::string& key, int) { return Play{seconds, {key}}; };
}
inline auto consuming(double seconds) {
  return [seconds](const std::string&, int) { return Play{seconds, {}}; };
}

struct Act {
  std::string name;
  std::vector<uint32_t> from;
  std::function<Play(const std::string& key, int attempt)> process;  // attempt: from 1, of this key
  int64_t workers = 0;
  kinora_resources needs{sizeof(kinora_resources), 0, 1, 0, 0, 0, 0, 0, 0};
  bool apart = false;
  double starting = 0;                      // seconds that an instance takes to start
  std::function<bool(int)> can_start = {};  // of the n-th instance, from 1
  int made = 0, alive = 0, busy = 0, most_busy = 0, emitted = 0;
  std::map<std::string, int> attempts{};
  std::vector<std::pair<double, std::string>> calls{};  // when, and of which key
};

class Pipeline;

class Script final : public Instance {
 public:
  Script(Pipeline& pipeline, Act& act, size_t node) : pipeline_(pipeline), act_(act), node_(node) {
    ++act_.alive;
  }
  ~Script() override { --act_.alive; }
  void send(Task& task) override;
  bool is_apart() const override { return act_.apart; }
  bool ended() const override { return ended_; }
  bool lost() const override;

 private:
  void emit(Task& task, const Play& play, size_t next);
  Sample input_of(const Task& task, const std::string& key) const;
  Play play_of(const std::vector<Sample>& batch);
  void end(Task& task, const Play& play);

  Pipeline& pipeline_;
  Act& act_;
  const size_t node_;
  bool ended_ = false;
  std::vector<Sample> held_;
};

class Pipeline : public Executor {
 public:
  std::deque<Act> acts;
  int64_t inputs = 0;
  uint64_t input_bytes = 0, memory = 0;
  Settings settings{};
  double cancel_at = kUntilCancelled;
  std::vector<std::pair<std::string, std::string>> outcomes;  // key, and "kept", or the reason
  nlohmann::json last_report;

  Pipeline() { settings.nodes.front().cores = 4; }
  Act& add(std::string name, std::vector<uint32_t> from, decltype(Act::process) process) {
    return acts.emplace_back(Act{std::move(name), std::move(from), std::move(process)});
  }
  double seconds() const { return seconds_between(Time{}, now_); }
  // The message of the error that ended the run, or "".
  std::string run();
  // The node goes, and with it all instances on it.
  void lose_at(double seconds, size_t node) {
    ++losses_;
    at(seconds, [this, node] {
      --losses_;
      lost.insert(node);
      runner_->lose_node(node);
    });
  }
  // A node of so many cores comes.
  void add_at(double seconds, double cores) {
    at(seconds, [this, cores] { runner_->add_node({cores}); });
  }
  std::set<size_t> lost;
  // What acts apart emit has a number, and its bytes are elsewhere: they can be lost. A call whose input is lost fails.
  bool numbers = false;
  // Of what is there at that time, the bytes for which `which` holds are lost.
  void lose_bytes_at(double seconds, std::function<bool(const std::string& key, uint64_t number)> which) {
    ++losses_;
    at(seconds, [this, which = std::move(which)] {
      --losses_;
      gone_.emplace_back([which, end = next_number_](const Sample& sample) {
        const auto text = sample.text("number");
        const uint64_t number = text ? std::stoull(std::string(*text)) : end;
        return number < end && which(std::string(sample.key()), number);
      });
      runner_->lose(gone_.back());
    });
  }
  bool is_gone(const Sample& sample) const {
    return std::any_of(gone_.begin(), gone_.end(), [&](const auto& is_lost) { return is_lost(sample); });
  }
  void number(Sample& sample, bool apart) {
    if (!numbers) return;
    if (apart)
      sample.set("number", std::to_string(next_number_++));
    else
      sample.remove("number");
  }
  void at(double seconds, std::function<void()> work) {
    events_.emplace(after(now_, seconds), std::move(work));
  }

  FirstInstance first(const kinora_stage_spec& spec) override {
    Act& act = act_of(spec);
    ++act.made;
    return {act.needs,   act.apart, act.needs.batch > 1, true, std::make_unique<Script>(*this, act, 0),
            act.starting};
  }
  void start(const StageState& stage, const Slot& slot, Started started) override {
    Act& act = act_of(*stage.spec);
    at(act.starting, [this, &act, node = slot.node, started = std::move(started)] {
      if (lost.contains(node)) {
        return at(0.1, [&act, started] {  // time goes on while there is no node
          const Error why(KINORA_ERROR_FAILED, "stage '" + act.name + "': its node was lost");
          started(nullptr, &why);
        });
      }
      if (act.can_start && !act.can_start(++act.made)) {
        const Error why(KINORA_ERROR_FAILED, "stage '" + act.name + "': the device is full");
        return started(nullptr, &why);
      }
      act.made += !act.can_start;
      started(std::make_unique<Script>(*this, act, node), nullptr);
    });
  }
  void post(std::function<void()> work, bool) override { at(0, std::move(work)); }
  void wait(double seconds) override {
    const Time until = after(now_, seconds);
    while (!std::exchange(awake_, false)) {
      if (events_.empty() || events_.begin()->first > until) {
        now_ = until;
        break;
      }
      if (events_.begin()->first > now_) now_ = events_.begin()->first;
      events_.extract(events_.begin()).mapped()();
    }
    if (this->seconds() >= cancel_at) host_run_.cancel = true;
    if (this->seconds() > 2e4) throw Error(KINORA_ERROR_FAILED, "the run does not end");
  }
  void wake() override { awake_ = true; }

 private:
  Act& act_of(const kinora_stage_spec& spec) {
    for (Act& act : acts)
      if (act.name == spec.name) return act;
    throw Error(KINORA_ERROR_NOT_FOUND, spec.name);
  }
  int32_t next(kinora_sample** out);
  void done(const kinora_outcome& outcome);

  Time now_{};
  std::multimap<Time, std::function<void()>> events_;  // of one time: in the order of their arrival
  bool awake_ = false;
  size_t losses_ = 0;  // that are still to come
  uint64_t next_number_ = 0;
  std::vector<std::function<bool(const Sample&)>> gone_;
  Runner* runner_ = nullptr;
  int64_t given_ = 0;
  testing::Run host_run_{"", 4};
};

inline std::string Pipeline::run() {
  testing::start();
  std::vector<kinora_stage_spec> specs;
  for (const Act& act : acts)
    specs.push_back({sizeof(kinora_stage_spec), static_cast<uint32_t>(act.from.size()), act.name.c_str(),
                     "stage/made_up", "{}", act.from.data(), nullptr, nullptr, act.workers});
  std::vector<const kinora_stage_spec*> pointers;
  for (const auto& spec : specs) pointers.push_back(&spec);
  static constexpr auto of = [](void* self) -> Pipeline& { return *static_cast<Pipeline*>(self); };
  const kinora_pipeline pipeline{
      sizeof(kinora_pipeline),
      static_cast<uint32_t>(specs.size()),
      pointers.data(),
      memory,
      this,
      [](void* self, kinora_sample** out) { return of(self).next(out); },
      [](void* self, const kinora_outcome* o) { return of(self).done(*o), int32_t{KINORA_OK}; },
      [](void* self, const char* text) { of(self).last_report = nlohmann::json::parse(text); }};
  settings.now = [this] { return now_; };
  const kinora::Run run = static_cast<kinora::Run>(host_run_);
  std::string error;
  {
    Runner runner(pipeline, run, settings, *this);
    runner_ = &runner;
    try {
      runner.run();
    } catch (const Error& e) {
      error = e.what();
    }
    EXPECT_TRUE(events_.size() == losses_ || !error.empty()) << "something was left to do";
    while (!events_.empty()) events_.extract(events_.begin()).mapped()();
  }
  for (const Act& act : acts) EXPECT_EQ(act.alive, 0) << act.name << " has instances left";
  EXPECT_EQ(testing::TestSample::alive, 0) << "samples leaked";
  return error;
}

inline int32_t Pipeline::next(kinora_sample** out) {
  if (given_ == inputs) return KINORA_SIGNAL_END;
  Sample sample(std::to_string(given_++));
  if (input_bytes > 0) sample.set("mp4", std::vector<uint8_t>(input_bytes, 1));
  *out = sample.release();
  return KINORA_OK;
}

inline void Pipeline::done(const kinora_outcome& o) {
  outcomes.emplace_back(view(samples_api().key(o.sample)), o.end == KINORA_OUTCOME_KEPT ? "kept" : o.reason);
}

// The input of this key, of which a process has its own, or a new sample.
inline Sample Script::input_of(const Task& task, const std::string& key) const {
  const auto own = [&](const Sample& sample) {
    return act_.apart && pipeline_.numbers ? sample.clone(key) : sample;
  };
  if (task.in && key == task.key) return own(task.in->sample);
  for (const Sample& input : task.inputs)
    if (input.key() == key) return own(input);
  return Sample(key);
}

// One after the other.
inline Play Script::play_of(const std::vector<Sample>& batch) {
  Play out{0, {}};
  for (const Sample& sample : batch) {
    const std::string key(sample.key());
    const Play one = act_.process(key, ++act_.attempts[key]);
    out.seconds += one.seconds;
    out.bytes = one.bytes;
    out.dies = out.dies || one.dies;
    for (const auto& made : one.emits) {
      out.emits.push_back(made);
      if (made != key) out.parents.emplace(made, key);
    }
    if (one.status != KINORA_OK) out.status = one.status, out.message = one.message;
  }
  return out;
}

inline void Script::send(Task& task) {
  const auto is_gone = [&](const Sample& sample) { return pipeline_.is_gone(sample); };
  if (task.call == Task::Call::process ? is_gone(task.in->sample)
                                       : std::any_of(task.inputs.begin(), task.inputs.end(), is_gone)) {
    ++act_.busy;
    const Play failed{0, {}, 0, false, KINORA_ERROR_DATA, "its input is lost"};
    return pipeline_.at(0, [this, &task, failed] { end(task, failed); });
  }
  for (const Sample& input : task.inputs) act_.calls.emplace_back(pipeline_.seconds(), input.key());
  if (task.inputs.empty())
    act_.calls.emplace_back(pipeline_.seconds(), task.call == Task::Call::process ? task.key : "finish");
  if (++act_.busy > act_.most_busy) act_.most_busy = act_.busy;
  Play play;
  if (task.call == Task::Call::process) {
    play = act_.process(task.key, ++act_.attempts[task.key]);
  } else if (task.call == Task::Call::process_batch) {
    play = play_of(task.inputs);
  } else {
    play.seconds = 0;
    for (const Sample& sample : held_) play.emits.emplace_back(sample.key());
  }
  if (play.seconds < kUntilCancelled)
    return pipeline_.at(play.seconds, [this, &task, play] { emit(task, play, 0); });
  if (task.run.cancelled(task.run.self) != KINORA_OK) {
    play.status = KINORA_ERROR_CANCELLED;
    return pipeline_.at(0, [this, &task, play] { end(task, play); });
  }
  // It looks again, and is not another call.
  --act_.busy, --act_.attempts[task.key], act_.calls.pop_back();
  pipeline_.at(0.01, [this, &task] { send(task); });
}

inline bool Script::lost() const { return ended_ && pipeline_.lost.contains(node_); }

inline void Script::emit(Task& task, const Play& play, size_t next) {
  if (pipeline_.lost.contains(node_)) return end(task, play);
  try {
    for (; next < play.emits.size(); ++next) {
      const std::string& key = play.emits[next];
      const auto of_held =
          std::find_if(held_.begin(), held_.end(), [&](const auto& s) { return s.key() == key; });
      std::optional<Sample> sample;
      if (of_held != held_.end()) {
        sample = std::move(*of_held);
        held_.erase(of_held);
      } else {
        sample = input_of(task, key);
        if (const auto parent = play.parents.find(key); parent != play.parents.end())
          task.made_of(std::array{str(parent->second)});
        if (play.bytes > 0) sample->set("mp4", std::vector<uint8_t>(play.bytes, 1));
      }
      pipeline_.number(*sample, act_.apart);
      task.room = [this, &task, play, next](bool granted) {
        pipeline_.at(0, [this, &task, play, next, granted] {
          if (granted) return ++act_.emitted, emit(task, play, next + 1);
          Play ended = play;
          ended.status = KINORA_ERROR_CANCELLED;
          end(task, ended);
        });
      };
      if (!task.emit(std::move(*sample))) return;
      ++act_.emitted;
    }
    if (play.holds) {
      task.hold();
      held_.push_back(input_of(task, task.key));
    }
  } catch (const Error& e) {
    Play failed = play;
    failed.status = e.code(), failed.message = e.what();
    return end(task, failed);
  }
  end(task, play);
}

inline void Script::end(Task& task, const Play& play) {
  --act_.busy;
  ended_ = play.dies || pipeline_.lost.contains(node_);
  if (ended_) held_.clear();
  task.done(ended_ && play.status == KINORA_OK ? KINORA_ERROR_FAILED : play.status,
            ended_ ? "killed by signal 9" : play.message);
}

}  // namespace kinora::engines::made_up
