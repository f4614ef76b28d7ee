#include "core/workers/worker.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/wait.h>

#include "core/io.hpp"
#include "core/log.hpp"
#include "core/workers/environment.hpp"
#include "core/workers/held_memory.hpp"
#include "core/workers/sample_message.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

constexpr int kPoll = 10;                         // milliseconds between looks at a worker that is silent
constexpr auto kGrace = std::chrono::seconds(2);  // to stop in, when it was asked to

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

// The most that any worker of this process has held at once.
std::atomic<uint64_t>& most_held() {
  static std::atomic<uint64_t> one{0};
  return one;
}

// Above the numbers that a worker expects its own at.
Descriptor moved_up(int fd) { return Descriptor(::fcntl(fd, F_DUPFD_CLOEXEC, 16)); }

class FileActions {
 public:
  FileActions() { posix_spawn_file_actions_init(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

// What a sink of the stage is told, or a message of why it was not.
json answer(int32_t status) {
  json out{{"status", status}};
  if (status != KINORA_OK) out["message"] = view(host()->last_error(host()));
  return out;
}

double limit_of(const kinora_worker_spec& spec) { return spec.struct_size >= sizeof spec ? spec.limit : 0; }

}  // namespace

uint64_t most_held_by_a_worker() { return most_held(); }

Worker::Worker(const WorkerProgram& program, const kinora_worker_spec& spec)
    : name_(spec.name),
      hang_(spec.hang),
      limit_(limit_of(spec)),
      memory_(spec.memory),
      channel_(Descriptor()) {
  auto [mine, theirs] = socket_pair();
  channel_ = Channel(std::move(mine));
  const json options = json::parse(spec.options_json);
  spawn(program, theirs.get(), worker_environment(options));
  theirs = Descriptor();
  Message make;
  make.head = {{"do", "make"}, {"id", spec.id}, {"options", spec.options_json}, {"log", log_level()}};
  if (names_storage(options)) lend_keys(make);
  make.head["storages"] = served_io() ? served_io()->configured() : json::object();
  try {
    const int32_t status = converse(make, nullptr, nullptr);
    if (status != KINORA_OK) throw Error(status, std::string(view(host()->last_error(host()))));
  } catch (...) {
    stop();
    throw;
  }
}

Worker::~Worker() { stop(); }

void Worker::stop() {
  if (ended_ || pid_ < 0) return;
  ended_ = true;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// Only now, and only to this worker: see environment.hpp.
void Worker::lend_keys(Message& message) {
  if (std::exchange(has_keys_, true)) return;
  message.head["environment"] = storage_environment();
}

void Worker::spawn(const WorkerProgram& program, int socket, std::vector<std::string> variables) {
  const Descriptor socket_above = moved_up(socket), page_above = moved_up(signs_.descriptor());
  FileActions actions;
  posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(actions.get(), STDERR_FILENO, STDOUT_FILENO);  // stdout is for results
  posix_spawn_file_actions_adddup2(actions.get(), socket_above.get(), kWorkerSocket);
  posix_spawn_file_actions_adddup2(actions.get(), page_above.get(), kWorkerPage);
  posix_spawn_file_actions_addclosefrom_np(actions.get(), kWorkerPage + 1);
  std::vector<std::string> words{program.program.string()};
  for (const auto& dir : program.plugin_dirs) words.insert(words.end(), {"--plugins", dir.string()});
  words.emplace_back("worker");
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> out;
    for (auto& text : texts) out.push_back(text.data());
    out.push_back(nullptr);
    return out;
  };
  const int error = ::posix_spawn(&pid_, program.program.c_str(), actions.get(), nullptr,
                                  pointers(words).data(), pointers(variables).data());
  if (error == 0) return;
  pid_ = -1;
  throw Error(KINORA_FAILED, fmt::format("{}: a worker process cannot be started from {}: {}", name_,
                                         program.program.string(), std::strerror(error)));
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
  if (ended_) throw Error(KINORA_FAILED, "its process has ended");
  signs_.page().stop.store(0, std::memory_order_relaxed);
  asked_to_stop_ = {};
  lived_ = began_ = Clock::now();
  given_.clear();
  for (const Descriptor& piece : call.shared)
    if (struct stat s{}; ::fstat(piece.get(), &s) == 0) given_.insert(s.st_ino);
  try {
    channel_.send(call);
    for (Message message;;) {
      const auto got = channel_.receive(message, kPoll);
      if (got == Channel::Got::closed) end("");
      if (int32_t status = 0; got == Channel::Got::message && answered(message, emit, status)) return status;
      watch(run);
    }
  } catch (const nlohmann::json::exception&) {
    end("killed: it sent what is no message");
  } catch (const Error& e) {
    if (ended_ || e.code() == KINORA_UNSUPPORTED) throw;
    // Of a socket that is closed, how it came to that says more.
    if (e.code() == KINORA_IO) end("");
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
    if (status != KINORA_OK) set_error(status, message.head.at("message").get<std::string>().c_str());
    return true;
  }
  if (!emit) throw Error(KINORA_DATA, "it sent a sample that nobody asked for");
  Message reply;
  const auto asked = Clock::now();
  reply.head = answer(passed_on(message, *emit));
  channel_.send(reply);
  lived_ = Clock::now();  // while the next stage was full, it had to wait
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
  throw Error(KINORA_DATA, "it sent what is no message");
}

// The stage keeps its input and has set these fields of it.
int32_t Worker::set_fields(const Sample& changes) const {
  return guard([&] {
    Sample in = Sample::borrow(input_);
    for (const auto& field : changes.fields())
      in.set(std::string(field.name).c_str(), std::vector<uint8_t>(field.bytes.begin(), field.bytes.end()));
  });
}

// Looks after a worker that is silent or busy: whether the run is to stop, it lives, and it is modest.
void Worker::watch(const kinora_run* run) {
  const auto now = Clock::now();
  if (asked_to_stop_ == Clock::time_point{} && run && run->cancelled &&
      run->cancelled(run->self) != KINORA_OK) {
    signs_.page().stop.store(1, std::memory_order_relaxed);
    asked_to_stop_ = now;
  }
  if (asked_to_stop_ != Clock::time_point{} && now - asked_to_stop_ > kGrace) {
    stop();
    throw Error(KINORA_CANCELLED, "cancelled");
  }
  if (const uint64_t beats = signs_.page().beats.load(std::memory_order_relaxed); beats != beats_) {
    beats_ = beats;
    lived_ = now;
  }
  // Making an instance may take as long as it likes: nobody's media is involved.
  if (run && hang_ > 0 && std::chrono::duration<double>(now - lived_).count() > hang_)
    end(fmt::format("killed after {:g} s without a sign of life (item_timeout)", hang_));
  if (run && limit_ > 0 && std::chrono::duration<double>(now - began_).count() > limit_)
    end(fmt::format("killed after {:g} s at one sample, the most it may take (item_limit)", limit_));
  const uint64_t own = held_memory(pid_, given_);
  for (uint64_t before = most_held(); own > before && !most_held().compare_exchange_weak(before, own);) {
  }
  if (memory_ > 0 && own > memory_)
    end(fmt::format("killed when it held {} MiB of memory, more than the {} MiB it may have (item_memory)", own >> 20,
                    memory_ >> 20));
}

void Worker::end(const std::string& why) {
  ended_ = true;
  if (!why.empty()) ::kill(pid_, SIGKILL);
  int status = 0;
  // A socket that is closed means a process that is about to end; one that lingers all the same is helped.
  for (int i = 0; why.empty() && i < 200; ++i) {
    if (::waitpid(pid_, &status, WNOHANG) == pid_) throw Error(KINORA_FAILED, end_of(status));
    ::usleep(5000);
  }
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  throw Error(KINORA_FAILED, why.empty() ? end_of(status) : why);
}

}  // namespace kinora::core
