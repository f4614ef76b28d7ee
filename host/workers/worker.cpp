#include "host/workers/worker.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/wait.h>

#include "core/base/cancel.hpp"
#include "core/base/log.hpp"
#include "core/io/io.hpp"
#include "core/plugin/host.hpp"
#include "host/workers/held_memory.hpp"
#include "host/workers/process.hpp"
#include "host/workers/resources_message.hpp"
#include "host/workers/sample_message.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

constexpr int kPoll = 10;                         // milliseconds between checks of a worker
constexpr auto kGrace = std::chrono::seconds(2);  // time to stop in when asked to
constexpr auto kLook =
    std::chrono::milliseconds(100);        // between measurements of the memory of a stage's child processes
constexpr size_t kLongestMessage = 16384;  // bytes of an error's message, as in serve.cpp
constexpr double kSlow = 10;  // seconds after which the log reports that an instance is still being created

const char* signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? name : "?";
}

std::string end_of(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return fmt::format("killed by signal {} (SIG{}{})", signal, signal_name(signal),
                       signal == SIGKILL ? ", perhaps by the system for lack of memory" : "");
  }
  return fmt::format("its process ended by itself with code {}", WEXITSTATUS(status));
}

// The maximum that any worker of this process has held at once.
std::atomic<uint64_t>& most_held() {
  static std::atomic<uint64_t> one{0};
  return one;
}

// The answer to the stage: a sink's status, with the error message if it failed.
json answer(int32_t status) {
  json out{{"status", status}};
  if (status != KINORA_OK) out["message"] = view(host()->last_error(host())).substr(0, kLongestMessage);
  return out;
}

}  // namespace

void start_stage(const kinora_stage& stage, void* self, const kinora_run& run) {
  if (!KINORA_HAS(&stage, start) || !stage.start) return;
  const int32_t status = stage.start(self, &run);
  if (status == KINORA_OK || status == KINORA_ERROR_CANCELLED) return check(status);
  throw Error(KINORA_ERROR_REFUSED, from_abi(status, "start()").failure().message);
}

uint64_t most_held_by_a_worker() { return most_held(); }
void count_held_anew() { most_held() = 0; }

Worker::Worker(const WorkerProgram& program, const kinora_worker_spec& spec)
    : name_(spec.name),
      hang_(spec.hang),
      limit_(spec.limit),
      making_(program.making),
      memory_(spec.memory),
      together_(spec.together),
      channel_(Descriptor()),
      output_(spec.name) {
  auto [mine, theirs] = socket_pair();
  channel_ = Channel(std::move(mine));
  const json options = json::parse(spec.options_json);
  process_.start(program, name_, {theirs.get(), signs_.descriptor(), output_.descriptor()},
                 worker_environment(options));
  theirs = Descriptor();
  output_.close();
  Message make;
  make.head = {{"do", "make"}, {"id", spec.id}, {"options", spec.options_json}, {"log", log_level()}};
  if (names_storage(options)) lend_keys(make);
  make.head["storages"] = served_io() ? served_io()->configured() : json::object();
  try {
    const int32_t status = converse(make, nullptr, nullptr);
    if (status != KINORA_OK) throw Error(status, std::string(view(host()->last_error(host()))));
  } catch (const WorkerDied& e) {
    if (e.killed)
      throw WorkerDied(KINORA_ERROR_NO_MEMORY,
                       e.how + " while an instance was made; free memory and run again", e.how, true);
    throw WorkerDied(
        KINORA_ERROR_FAILED,
        e.how +
            " while an instance was made, in its constructor or resources(); fix the plugin or the "
            "stage's options, or leave the stage out",
        e.how, false);
  }
}

Worker::~Worker() {
  static_cast<void>(guard([&] { stop(); }));
}

void Worker::stop() {
  ended_ = true;
  process_.end();
  held_.set(0);
  // Its last words, even if the line was not complete.
  output_.read();
  output_.say(KINORA_LOG_INFO, true);
}

// Only now, and only to this worker: see worker_environment().
void Worker::lend_keys(Message& message) {
  if (std::exchange(has_keys_, true)) return;
  message.head["environment"] = storage_environment();
}

int32_t Worker::process(const Sample& in, const kinora_emit& emit, const kinora_run& run) {
  Message call;
  call.head = {{"do", "process"},
               {"seed", run.seed},
               {"threads", run.n_threads},
               {"out", view(run.out)},
               {"device_type", run.device_type},
               {"device_id", run.device_id}};
  put_sample(call, in);
  input_ = in.get();
  const struct Lent {
    kinora_sample*& to;
    ~Lent() { to = nullptr; }
  } lent{input_};
  if (needs_storage(in.text("url").value_or("")) || needs_storage(view(run.out))) lend_keys(call);
  return converse(call, &emit, &run);
}

int32_t Worker::finish(const kinora_emit& emit, const kinora_run& run) {
  Message call;
  call.head = {{"do", "finish"},
               {"seed", run.seed},
               {"threads", run.n_threads},
               {"out", view(run.out)},
               {"device_type", run.device_type},
               {"device_id", run.device_id}};
  if (needs_storage(view(run.out))) lend_keys(call);
  return converse(call, &emit, &run);
}

int32_t Worker::converse(const Message& call, const kinora_emit* emit, const kinora_run* run) {
  if (ended_) throw Error(KINORA_ERROR_FAILED, "its process has ended");
  const HeldByOne::AtWork at_work(held_, run != nullptr);
  signs_.page().stop.store(0, std::memory_order_relaxed);
  asked_to_stop_ = {};
  lived_ = began_ = Clock::now();
  given_.clear();
  for (const Descriptor& piece : call.shared)
    if (struct stat s{}; ::fstat(piece.get(), &s) == 0) given_.insert(s.st_ino);
  bool is_asked = false;  // until then the worker waits for a call, and nothing is lost
  try {
    channel_.send(call);
    is_asked = true;
    // A process forked by its stage may keep the socket open after the worker is gone.
    bool gone = false;
    for (Message message;;) {
      const auto got = channel_.receive(message, gone ? 0 : kPoll);
      if (got == Channel::Got::closed || (gone && got == Channel::Got::nothing)) end("");
      if (int32_t status = 0; got == Channel::Got::message && answered(message, emit, status)) {
        output_.read();
        output_.say(KINORA_LOG_INFO, false);
        return status;
      }
      gone = process_.has_ended();
      const bool is_due = Clock::now() - watched_ >= std::chrono::milliseconds(kPoll);
      if (!gone && (got == Channel::Got::nothing || is_due)) watch(run);
    }
  } catch (const nlohmann::json::exception&) {
    end("killed: it sent a malformed message");
  } catch (const Error& e) {
    if (ended_ || (!is_asked && e.code() == KINORA_ERROR_UNSUPPORTED)) throw;
    // If the socket was closed, the reason for that is more informative.
    if (e.code() == KINORA_ERROR_IO) end("");
    end(std::string("killed: ") + e.what());
  }
}

bool Worker::answered(Message& message, const kinora_emit* emit, int32_t& status) {
  const auto what = message.head.at("is").get<std::string>();
  if (what == "log") {
    log_line(message.head.at("level").get<int32_t>(), message.head.at("text").get<std::string>());
    return false;
  }
  if (what == "done") {
    status = message.head.at("status").get<int32_t>();
    if (const auto told = message.head.find("resources"); told != message.head.end())
      resources_ = take_resources(*told);
    if (status != KINORA_OK) set_error(status, message.head.at("message").get<std::string>().c_str());
    return true;
  }
  if (!emit) throw Error(KINORA_ERROR_DATA, "it sent a sample that was not requested");
  Message reply;
  const auto asked = Clock::now();
  reply.head = answer(passed_on(message, *emit));
  channel_.send(reply);
  lived_ = Clock::now();  // it had to wait while the next stage was full
  began_ += lived_ - asked;
  return false;
}

int32_t Worker::passed_on(Message& message, const kinora_emit& emit) {
  const json& head = message.head;
  const auto what = head.at("is").get<std::string>();
  const auto text = [&](const char* name) { return head.at(name).get<std::string>(); };
  if (what == "emit") return emit.emit(emit.self, take_sample(message).release());
  if (what == "drop")
    return emit.drop(emit.self, take_sample(message).release(), text("rule").c_str(),
                     head.at("score").get<double>());
  if (what == "fail") return emit.fail(emit.self, take_sample(message).release(), text("reason").c_str());
  if (what == "hold") return emit.hold(emit.self);
  if (what == "set") return set_fields(take_sample(message));
  if (what == "stored") {
    const std::string key = text("key");
    return emit.stored(emit.self, str(key));
  }
  if (what == "made_of") {
    std::vector<kinora_str> keys;
    for (const json& key : head.at("keys")) keys.push_back(str(key.get_ref<const std::string&>()));
    return emit.made_of(emit.self, keys.data(), keys.size());
  }
  throw Error(KINORA_ERROR_DATA, "it sent a malformed message");
}

// The stage does not emit its input and has set these fields of it.
int32_t Worker::set_fields(const Sample& changes) const {
  return guard([&] {
    if (!input_) throw Error(KINORA_ERROR_DATA, "it set fields where it has no input");
    Sample in = Sample::borrow(input_);
    for (const auto& field : changes.fields())
      in.set(std::string(field.name).c_str(), std::vector<uint8_t>(field.bytes.begin(), field.bytes.end()));
  });
}

// Supervises a worker that is silent or busy: whether the run is to stop, whether it is alive, and whether it
// stays within its limits.
void Worker::watch(const kinora_run* run) {
  const auto now = watched_ = Clock::now();
  output_.read();
  if (!run) watch_making(now);
  if (asked_to_stop_ == Clock::time_point{} && run && run->cancelled &&
      run->cancelled(run->self) != KINORA_OK) {
    signs_.page().stop.store(1, std::memory_order_relaxed);
    asked_to_stop_ = now;
  }
  if (asked_to_stop_ != Clock::time_point{} && now - asked_to_stop_ > kGrace) {
    stop();
    throw Error(KINORA_ERROR_CANCELLED, "cancelled");
  }
  if (const uint64_t beats = signs_.page().beats.load(std::memory_order_relaxed); beats != beats_) {
    beats_ = beats;
    lived_ = now;
    if (run && run->progress) run->progress(run->self, 0, 0, nullptr);
  }
  if (run && hang_ > 0 && std::chrono::duration<double>(now - lived_).count() > hang_)
    end(fmt::format("killed after {:g} s without a sign of life (item_timeout)", hang_));
  if (run && limit_ > 0 && std::chrono::duration<double>(now - began_).count() > limit_)
    end(fmt::format("killed after {:g} s at one sample, the most it may take (item_limit)", limit_));
  watch_memory(now);
}

void Worker::watch_memory(Clock::time_point now) {
  const uint64_t own = held_memory(pid(), given_), all = std::max(own, held_with_started(now));
  for (uint64_t before = most_held(); all > before && !most_held().compare_exchange_weak(before, all);) {
  }
  if (memory_ > 0 && all > memory_)
    end(fmt::format("killed when it{} held {} MiB of memory, more than the {} MiB it may have (item_memory)",
                    own > memory_ ? "" : " and what it had started", all >> 20, memory_ >> 20));
  held_.set(all, pid());
  if (together_ == 0) return;
  if (const uint64_t sum = held_.sum_above(together_))
    end(
        fmt::format("killed with {} MiB of memory, the most of the processes that together held {} MiB, more "
                    "than the {} MiB that they may have (worker_memory)",
                    all >> 20, sum >> 20, together_ >> 20));
}

// Counts only what was there in two measurements in a row: a process may be measured at the moment when it
// executes another program. Slow measurements are rare, so that they take a small part of the time.
uint64_t Worker::held_with_started(Clock::time_point now) {
  if (now < next_look_) return with_started_;
  const uint64_t held = held_memory_of_group(pid(), given_, memory_);
  const auto after = Clock::now();
  next_look_ = after + std::max<Clock::duration>(kLook, 20 * (after - now));
  with_started_ = std::min(held, std::exchange(last_look_, held));
  return with_started_;
}

// Reading a large model gives no sign of life, and a constructor receives no signals: only the time limit
// counts, and a request to stop the program ends it at once.
void Worker::watch_making(Clock::time_point now) {
  if (cancelled()) {
    stop();
    throw Error(KINORA_ERROR_CANCELLED, "cancelled");
  }
  const double seconds = std::chrono::duration<double>(now - began_).count();
  if (seconds > kSlow && !std::exchange(said_slow_, true))
    log_warn("{}: still making its instance after {:g} s", name_, kSlow);
  if (seconds > making_)
    end(fmt::format("killed after {:g} s, the most that making an instance may take,", making_));
}

// For a process that is gone: log lines that had not been read, and its own output.
void Worker::hear_the_rest() {
  const int32_t status = guard([&] {
    for (Message message; channel_.receive(message, 0) == Channel::Got::message;)
      if (message.head.value("is", "") == "log")
        log_line(message.head.at("level").get<int32_t>(), message.head.at("text").get<std::string>());
  });
  if (status != KINORA_OK) log_warn("{}: its process sent a malformed message before it ended", name_);
  output_.read();
  output_.say(KINORA_LOG_WARN, true);
}

void Worker::end(const std::string& why) {
  ended_ = true;
  // A closed socket means a process that is about to end; one that lingers is killed.
  for (int i = 0; why.empty() && i < 200 && !process_.has_ended(); ++i) ::usleep(5000);
  const bool lived_on = why.empty() && !process_.has_ended();
  const int status = process_.end();
  held_.set(0);
  const bool by_kill = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  const bool lost = lived_on || (by_kill && signs_.page().left.load(std::memory_order_relaxed) != 0);
  hear_the_rest();
  std::string how = why;
  if (why.empty()) how = lost ? "killed: it closed its connection and continued" : end_of(status);
  throw WorkerDied(KINORA_ERROR_FAILED, how, how, why.empty() && by_kill && !lost);
}

}  // namespace kinora::core
