#include "plugins/engines/ray/worker.hpp"

#include <cmath>

namespace kinora::ray {
namespace {

using nlohmann::json;

std::string in_seconds(double n) { return std::to_string(std::lround(n)) + " s"; }

}  // namespace

void Worker::call(engines::Task& task) {
  static std::atomic<uint64_t> calls{0};
  const auto self = shared_from_this();  // the task, and with it the instance, may be over at the end
  Lock lock(mutex_);
  if (leaves_ && !ended_) {
    how_ = "stopped with its node";
    lost_ = true;
    ended_ = true;
  }
  if (ended_ || !cut_off_.empty()) {
    const int32_t status = ended_ ? KINORA_ERROR_FAILED : KINORA_ERROR_REFUSED;
    const std::string why = ended_ ? how_ : cut_off_;
    lock.unlock();
    return task.done(status, why);
  }
  task_ = &task;
  const uint64_t call = call_ = ++calls;
  failed_.reset();
  asked_.reset();
  waits_ = false;
  began_ = lived_ = limits_.now();
  task.room = [self, call](bool granted) { self->room(call, granted); };
  sending_ = true;
  lock.unlock();
  std::optional<Error> failed;
  try {
    send_call(task, call);
  } catch (const Error& e) {
    // The reader sees the end of the bridge, and says what it means.
    if (e.code() != KINORA_ERROR_IO) failed = e;
  }
  lock.lock();
  sending_ = false;
  if (failed) return end_call(failed->code(), failed->what());
  if (!letters_.empty()) start_draining();
}

// Whatever comes meanwhile waits, also the death of the process, which would end the task.
void Worker::send_call(engines::Task& task, uint64_t call) {
  using Call = engines::Task::Call;
  const char* what = task.call == Call::process         ? "process"
                     : task.call == Call::process_batch ? "process_batch"
                                                        : "finish";
  if (task.call == Call::process) wire_->send({{"is", "input"}, {"call", call}}, &task.in->sample);
  if (task.call == Call::process_batch)
    for (const Sample& sample : task.inputs) wire_->send({{"is", "input"}, {"call", call}}, &sample);
  wire_->send({{"is", "call"},
               {"call", call},
               {"worker", id_},
               {"what", what},
               {"home", task.stage.comes_home()},
               {"leaves", task.stage.to.empty() && !task.remakes()}});
}

void Worker::hear(Letter letter) {
  const Lock lock(mutex_);
  if (!task_ || letter.head.value("call", uint64_t{0}) != call_) return;
  lived_ = limits_.now();
  if (letter.head.value("what", "") == "beat") return;
  letters_.push_back(std::move(letter));
  start_draining();
}

void Worker::die(const std::string& how, bool lost) {
  const Lock lock(mutex_);
  if (ended_) return;
  how_ = how;
  lost_ = lost;
  ended_ = true;
  end_call(KINORA_ERROR_FAILED, how);
}

void Worker::cut_off(const std::string& why) {
  const Lock lock(mutex_);
  cut_off_ = why;
  end_call(KINORA_ERROR_REFUSED, why);
}

void Worker::leave() {
  const Lock lock(mutex_);
  leaves_ = true;
}

void Worker::look() {
  const Lock lock(mutex_);
  if (!task_ || !cut_off_.empty()) return;
  const engines::Time now = limits_.now();
  if (!asked_ && task_->run.cancelled(task_->run.self) != KINORA_OK) {
    asked_ = now;
    post_([self = shared_from_this()] { self->send({{"is", "cancel"}, {"worker", self->id_}}); });
  }
  if (waits_ || ended_) return;
  const bool late = asked_ && engines::seconds_between(*asked_, now) > limits_.grace;
  const std::string why = late ? "cancelled" : too_long(now);
  if (why.empty()) return;
  how_ = why;
  ended_ = true;
  end_call(late ? KINORA_ERROR_CANCELLED : KINORA_ERROR_FAILED, why);
  post_([self = shared_from_this()] { self->send({{"is", "stop"}, {"worker", self->id_}}); });
}

std::string Worker::too_long(engines::Time now) const {
  if (limits_.timeout > 0 && engines::seconds_between(lived_, now) > limits_.timeout)
    return "killed after no sign of life for " + in_seconds(limits_.timeout) + " (item_timeout)";
  if (limits_.limit > 0 && engines::seconds_between(began_, now) > limits_.limit)
    return "killed after " + in_seconds(limits_.limit) + " of one sample (item_limit)";
  return "";
}

void Worker::end_call(int32_t status, const std::string& message) {
  if (!task_) return;
  letters_.push_back({{{"is", "done"}, {"call", call_}, {"status", status}, {"message", message}}});
  start_draining();
}

void Worker::start_draining() {
  if (draining_) return;
  draining_ = true;
  post_([self = shared_from_this()] { self->drain(); });
}

// While an emission waits for room the rest waits too, also the end of the call: the scheduler knows the task.
void Worker::drain() {
  for (;;) {
    Lock lock(mutex_);
    if (letters_.empty() || waits_ || sending_) {
      draining_ = false;
      return;
    }
    Letter letter = std::move(letters_.front());
    letters_.pop_front();
    engines::Task* const task = task_;
    if (!task || letter.head.value("call", uint64_t{0}) != call_) continue;
    lock.unlock();
    if (letter.head.value("is", "") == "done")
      finish(*task, letter.head);
    else
      apply(*task, letter);
  }
}

void Worker::apply(engines::Task& task, Letter& letter) {
  {
    const Lock lock(mutex_);
    if (failed_) return;
  }
  try {
    if (tell(task, letter)) send({{"is", "take"}, {"call", letter.head.at("call")}});
  } catch (const Error& e) {
    fail(e);
  } catch (const std::exception& e) {
    fail(Error(KINORA_ERROR_DATA,
               std::string("the process of the stage sent a malformed message: ") + e.what()));
  }
}

// What the engine refuses is the result of the call, whatever the stage makes of it.
void Worker::fail(const Error& why) {
  {
    const Lock lock(mutex_);
    waits_ = false;
    failed_ = why;
  }
  send({{"is", "cancel"}, {"worker", id_}});
}

// Returns whether it was taken; otherwise room() says so later.
bool Worker::tell(engines::Task& task, Letter& letter) {
  const json& head = letter.head;
  const auto what = head.at("what").get<std::string>();
  const auto sample = [&]() -> Sample {
    if (!letter.sample)
      throw Error(KINORA_ERROR_DATA, "the process of the stage sent '" + what + "' without a sample");
    return std::move(*letter.sample);
  };
  if (what == "emit") {
    {
      const Lock lock(mutex_);
      waits_ = true;
      waits_since_ = limits_.now();
    }
    Sample out = sample();
    if (head.contains("stored")) out.set(engines::kStored, head.at("stored").dump());
    if (!task.emit(std::move(out))) return false;
    const Lock lock(mutex_);
    waits_ = false;
    return true;
  }
  if (what == "drop")
    task.drop(sample(), head.at("rule").get<std::string>().c_str(), head.at("score").get<double>());
  else if (what == "fail")
    task.fail(sample(), head.at("reason").get<std::string>().c_str());
  else if (what == "hold")
    task.hold();
  else if (what == "stored")
    task.stored(head.at("key").get<std::string>());
  else if (what == "set")
    set(task, sample());
  else if (what == "made_of") {
    const auto keys = head.at("keys").get<std::vector<std::string>>();
    std::vector<kinora_str> names;
    for (const auto& key : keys) names.push_back(str(key));
    task.made_of(names);
  } else {
    throw Error(KINORA_ERROR_DATA,
                "the process of the stage sent '" + what + "', which the engine does not know");
  }
  return true;
}

// The stage did not emit its input and has set these fields of it, which go into its record.
void Worker::set(engines::Task& task, const Sample& changes) {
  if (!task.in) throw Error(KINORA_ERROR_DATA, "the process of the stage set fields where it has no input");
  for (const auto& field : changes.fields())
    task.in->sample.set(std::string(field.name).c_str(),
                        std::vector<uint8_t>(field.bytes.begin(), field.bytes.end()));
}

// Under the run's lock.
void Worker::room(uint64_t call, bool granted) {
  const Lock lock(mutex_);
  waits_ = false;
  const engines::Time now = limits_.now();
  began_ += now - waits_since_;
  lived_ = now;
  if (!granted) failed_ = Error(KINORA_ERROR_CANCELLED, "cancelled");
  json answer = granted ? json{{"is", "take"}, {"call", call}} : json{{"is", "cancel"}, {"worker", id_}};
  const bool drains = !std::exchange(draining_, true);
  post_([self = shared_from_this(), answer = std::move(answer), drains] {
    self->send(answer);
    if (drains) self->drain();
  });
}

void Worker::finish(engines::Task& task, const json& done) {
  int32_t status = done.value("status", int32_t{KINORA_ERROR_FAILED});
  std::string message = done.value("message", "");
  {
    const Lock lock(mutex_);
    if (done.value("ended", false)) {
      how_ = message;
      ended_ = true;
    }
    if (failed_ && !(ended_ && lost_)) status = failed_->code(), message = failed_->what();
    task_ = nullptr;
    letters_.clear();
  }
  task.done(status, std::move(message));
}

// The reader sees the end of the bridge.
void Worker::send(json head) const {
  if (!wire_) return;
  try {
    wire_->send(std::move(head));
  } catch (const Error&) {
  }
}

}  // namespace kinora::ray
