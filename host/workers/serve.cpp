#include <cmath>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <mutex>
#include <poll.h>
#include <thread>
#include <unistd.h>

#include <sys/prctl.h>
#include <sys/resource.h>

#include "core/base/log.hpp"
#include "core/plugin/options.hpp"
#include "core/runtime/runtime.hpp"
#include "core/runtime/tensor_service.hpp"
#include "host/workers/resources_message.hpp"
#include "host/workers/sample_message.hpp"
#include "host/workers/service.hpp"
#include "host/workers/worker.hpp"
#include "kinora/stage.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

// null until it serves. Never destroyed.
LifeSigns* signs_of_this = nullptr;

// Kills also everything that the stage has started: they are one group (process.hpp). If the owner lives, it
// sees that the system did not do it.
[[noreturn]] void end_group() {
  if (signs_of_this) signs_of_this->page().left.store(1, std::memory_order_relaxed);
  if (::getpgrp() == ::getpid()) ::kill(0, SIGKILL);
  ::_exit(0);
}

// Ends with its owner, whatever the stage is doing: when the owner dies in any way, its end of the socket closes.
void end_with_owner(int socket) {
  std::thread([socket] {
    pollfd waits{socket, 0, 0};
    while (::poll(&waits, 1, -1) < 0 || (waits.revents & (POLLHUP | POLLERR | POLLNVAL)) == 0) {
    }
    end_group();
  }).detach();
}

std::string_view text_of(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// One instance of a stage, and the calls that its owner makes.
class Serving {
 public:
  Serving(Runtime& runtime, Descriptor socket, Descriptor page)
      : runtime_(runtime), channel_(std::move(socket)), signs_(std::move(page)) {
    signs_of_this = &signs_;
    divert_log([this](int32_t level, std::string_view text) {
      Message message;
      message.head = {{"is", "log"}, {"level", level}, {"text", text.substr(0, 4096)}};
      send(message);
    });
  }

  // Handles one call of the owner, and answers it.
  void serve(const Message& call) {
    json reply{{"is", "done"}};
    const int32_t status = guard([&] { perform(call); });
    std::fflush(stdout);
    reply["status"] = status;
    if (status == KINORA_OK && call.head["do"] == "make") reply["resources"] = resources_;
    if (status != KINORA_OK) reply["message"] = view(host()->last_error(host())).substr(0, 16384);
    Message message;
    message.head = std::move(reply);
    send(message);
  }
  Message next() const {
    Message out;
    for (;;) {
      const auto got = channel_.receive(out, -1);
      if (got == Channel::Got::message) return out;
      if (got == Channel::Got::closed) end_group();
    }
  }

 private:
  static Serving& of(void* self) { return *static_cast<Serving*>(self); }

  void perform(const Message& call) {
    const auto what = call.head.at("do").get<std::string>();
    if (const auto lent = call.head.find("environment"); lent != call.head.end())
      for (const auto& [name, value] : lent->items())
        ::setenv(name.c_str(), value.get_ref<const std::string&>().c_str(), 1);
    if (what == "make") return make(call.head);
    out_ = call.head.at("out").get<std::string>();
    const kinora_run run = run_of_call(call.head);
    const kinora_emit emit = emit_table();
    if (!started_) start_stage(*stage_, self_, run);
    started_ = true;
    forget_error();  // of start()
    if (what == "finish") return stage_->finish ? check(stage_->finish(self_, &emit, &run)) : void();
    const Sample in = take_sample(call);
    const Sample given = in.clone(in.key());
    input_ = in.get();
    try {
      check(stage_->process(self_, in.get(), &emit, &run));
    } catch (...) {
      tell_what_was_set(in, given);
      throw;
    }
    tell_what_was_set(in, given);
  }

  // A stage that does not emit its input may still have set fields of it (a video's shots.json): they go into
  // its record.
  void tell_what_was_set(const Sample& in, const Sample& given) {
    if (!std::exchange(input_, nullptr)) return;
    Sample changes(in.key());
    for (const auto& field : in.fields()) {
      const std::string name(field.name);
      const auto old = given.bytes(name.c_str());
      const bool same = old && old->data() == field.bytes.data() && old->size() == field.bytes.size();
      if (!same) changes.set(name.c_str(), text_of(field.bytes));
    }
    if (changes.fields().empty()) return;
    check(tell(changes.release(), {{"is", "set"}}));
  }

  void make(const json& head) {
    or_throw(set_log_level(head.at("log").get<std::string>()));
    for (const auto& [scheme, options] : head.at("storages").items())
      runtime_.io().configure(scheme, options);
    component_ = or_throw(runtime_.registry().open("stage", head.at("id").get<std::string>()));
    options_ = or_throw(Options::make(*component_.spec, json::parse(head.at("options").get<std::string>())));
    stage_ = &component_.table<kinora_stage>();
    self_ = made([&] { return stage_->create(host(), options_.abi()); }, component_.spec->id);
    resources_ = resources();
  }

  json resources() const {
    kinora_resources r{sizeof(kinora_resources), 0, 1.0, 0.0, 0, 0, 0, 0, 0};
    check(stage_->resources(self_, &r));
    check_known(r, component_.spec->id);
    for (const auto& [number, of] : {std::pair{r.cores, "cores"}, {r.gpus, "GPUs"}})
      if (std::isnan(number))
        throw Error(
            KINORA_ERROR_INVALID,
            fmt::format("asks for a number of {} that is not a number (NaN); correct its resources()", of));
    if (is_third_party(runtime_.registry(), component_.spec->id)) r.isolated = 1;
    return put_resources(r);
  }

  kinora_run run_of_call(const json& head) {
    kinora_run run{};
    run.struct_size = sizeof run;
    run.device_type = head.at("device_type");
    run.device_id = head.at("device_id");
    run.n_threads = head.at("threads");
    run.seed = seed_ = head.at("seed");
    run.out = str(out_);
    run.self = this;
    run.progress = [](void* self, int64_t, int64_t, kinora_tensor) { return of(self).alive(); };
    run.cancelled = [](void* self) { return of(self).alive(); };
    // As in its owner: the numbers depend only on seed and key, and a process with tensors has loaded libtorch.
    run.noise = [](void* self, const char* key, kinora_tensor like, kinora_tensor* out) {
      return draw_noise(of(self).seed_, 0, key, like, out);
    };
    return run;
  }

  int32_t alive() const {
    signs_.page().beats.fetch_add(1, std::memory_order_relaxed);
    return signs_.page().stop.load(std::memory_order_relaxed) ? KINORA_ERROR_CANCELLED : KINORA_OK;
  }

  kinora_emit emit_table() {
    return {sizeof(kinora_emit),
            0,
            this,
            [](void* self, kinora_sample* s) {
              return of(self).tell(s, {{"is", "emit"}});
            },
            [](void* self, kinora_sample* s, const char* rule, double score) {
              return of(self).tell(s, {{"is", "drop"}, {"rule", rule ? rule : ""}, {"score", score}});
            },
            [](void* self) {
              return of(self).tell(nullptr, {{"is", "hold"}});
            },
            [](void* self, kinora_str key) {
              return of(self).tell(nullptr, {{"is", "stored"}, {"key", view(key)}});
            },
            [](void* self, kinora_sample* s, const char* reason) {
              return of(self).tell(
                  s, {{"is", "fail"}, {"reason", std::string(reason ? reason : "").substr(0, 16384)}});
            },
            [](void* self, const kinora_str* keys, uint64_t n) {
              json names = json::array();
              for (uint64_t i = 0; i < n; ++i) names.push_back(view(keys[i]));
              return of(self).tell(nullptr, {{"is", "made_of"}, {"keys", std::move(names)}});
            }};
  }

  // Sends it to the owner, and waits until the owner has accepted it: the owner's next stage may be full.
  int32_t tell(kinora_sample* given, json head) {
    if (given == input_) input_ = nullptr;
    std::optional<Sample> sample;
    if (given) sample = Sample::adopt(given);
    return guard([&] {
      Message message;
      message.head = std::move(head);
      if (sample) put_sample(message, *sample);
      sample.reset();
      send(message);
      const Message reply = next();
      const auto status = reply.head.at("status").get<int32_t>();
      if (status != KINORA_OK) throw Error(status, reply.head.at("message").get<std::string>());
    });
  }

  void send(const Message& message) {
    const std::lock_guard lock(sending_);
    try {
      channel_.send(message);
    } catch (const Error& e) {
      if (e.code() == KINORA_ERROR_IO) end_group();  // the owner is gone
      throw;
    }
  }

  Runtime& runtime_;
  Channel channel_;
  LifeSigns signs_;
  std::mutex sending_;  // a stage's own threads may log
  Component component_;
  Options options_;
  const kinora_stage* stage_ = nullptr;
  void* self_ = nullptr;
  json resources_;
  bool started_ = false;
  kinora_sample* input_ = nullptr;  // until the stage emits it
  std::string out_;
  uint64_t seed_ = 0;
};

}  // namespace

void serve_worker(Runtime& runtime) {
  if (::fcntl(kWorkerSocket, F_GETFD) < 0 || ::fcntl(kWorkerPage, F_GETFD) < 0)
    throw Error(KINORA_ERROR_INVALID,
                "worker: Kinora starts its workers itself; see engine/local, option isolate");
  // The owner decides when to stop, also when a terminal signals all processes.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);  // no setuid program can give it more privileges
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  // If memory runs out, this process must be killed before its owner.
  if (const Descriptor score(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC)); score)
      [[maybe_unused]]
    const auto written = ::write(score.get(), "500", 3);
  ::fcntl(kWorkerSocket, F_SETFD, FD_CLOEXEC);
  ::fcntl(kWorkerPage, F_SETFD, FD_CLOEXEC);
  // The stage's output must be read even if its process dies.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  auto* serving =
      new Serving(runtime, Descriptor(kWorkerSocket), Descriptor(kWorkerPage));  // until the process ends
  end_with_owner(kWorkerSocket);
  for (;;) serving->serve(serving->next());
}

}  // namespace kinora::core
