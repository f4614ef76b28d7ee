#include "plugins/jobs/generate/serving.hpp"

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <unistd.h>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <sys/prctl.h>

#include "core/base/cancel.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/paths.hpp"
#include "core/io/atomic_file.hpp"
#include "core/plugin/service.hpp"
#include "core/runtime/place.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/exchange.hpp"
#include "plugins/jobs/generate/about_video.hpp"
#include "plugins/jobs/generate/beats.hpp"
#include "plugins/jobs/generate/frame_files.hpp"
#include "plugins/jobs/generate/joint_session.hpp"
#include "plugins/jobs/generate/kept_chunks.hpp"
#include "plugins/jobs/generate/live_video.hpp"
#include "plugins/jobs/generate/measured_drift.hpp"
#include "plugins/jobs/generate/messages.hpp"
#include "plugins/jobs/generate/past_sessions.hpp"
#include "plugins/jobs/generate/request_fields.hpp"
#include "plugins/jobs/generate/video_times.hpp"
#include "plugins/jobs/inference/parts.hpp"
#include "plugins/jobs/inference/request_inputs.hpp"
#include "plugins/jobs/inference/requests.hpp"
#include "plugins/jobs/media/growing_video.hpp"
#include "plugins/jobs/media/stills.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct DiskFull : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// why: of a video that cannot be written.
[[noreturn]] void give_up(const Error& why, const fs::path& folder) {
  // FFmpeg's errors have the system's words alone.
  if (why.code() == KINORA_ERROR_NO_MEMORY ||
      std::string(why.what()).find(std::strerror(ENOSPC)) != std::string::npos)
    throw DiskFull("the disk of " + folder.string() + " is full");
  throw Error(why.code(), std::string("the video cannot be written: ") + why.what());
}

class Serving {
 public:
  Serving(JobContext& context, const GenerateOptions& options, Messages& messages)
      : context_(context),
        options_(options),
        parallel_(context),
        pipeline_(context.runtime(), inference::pipeline_spec(context, options), parallel_),
        fields_(context, options_, pipeline_),
        made_with_{{"", core::made_with(context, pipeline_.spec().parts, pipeline_.spec().kept)}},
        messages_(messages) {
    if (pipeline_.together().size != parallel_.world())
      raise(
          KINORA_ERROR_UNSUPPORTED,
          "{}: the ranks of a served model make each video together, and ddp gives them videos of their own; "
          "leave it out, or serve several models",
          context.spec().name);
    for (const auto& one : pipeline_.spec().loras)
      made_with_[one.name] = inference::with_lora(made_with_.at(""), pipeline_.spec(), one.name);
  }

  void run() {
    const double weights = parallel_.sum_of_world(static_cast<double>(pipeline_.weight_bytes()));
    if (parallel_.rank() > 0) return follow();
    json loras = json::array();
    for (const auto& one : pipeline_.spec().loras) loras.push_back(one.name);
    messages_.send({{"ready", fields_.defaults()},
                    {"loras", loras},
                    {"inputs", fields_.inputs()},
                    {"outputs", fields_.outputs()},
                    {"makes_live", makes_live()},
                    {"makes_shots", makes_shots()},
                    {"weights", weights}});
    std::thread reader([this] { read(); });
    std::exception_ptr lost;  // a rank is: the next process makes its video
    try {
      for (std::vector<json> wanted; next(wanted);) make_together(wanted);
      tell_others("");
    } catch (const std::exception& e) {
      log_error("{}: {}", context_.spec().name, e.what());
      lost = std::current_exception();
    }
    messages_.end();
    reader.join();
    if (lost) std::rethrow_exception(lost);
  }

 private:
  static constexpr const char* kNothing = "null";  // a message that followers pass over

  // Sessions of several ranks take no messages but the end.
  bool makes_live() const {
    return pipeline_.spec().rule.teacher_forcing && !pipeline_.makes_codes() && parallel_.world() == 1;
  }

  // Each keeps the keys and values of the earlier ones.
  bool makes_shots() const { return pipeline_.spec().has("cache") && !pipeline_.makes_codes(); }

  // Returns on all ranks the first one's text: a message, kNothing, or "" at the end.
  std::string tell_others(const std::string& text) {
    if (parallel_.world() == 1) return text;
    return Exchange(parallel_.group("world"), pipeline_.device()).gather(text).at(0);
  }

  // Another rank than the first: its part of the same sessions.
  void follow() {
    for (std::string text; !(text = tell_others("")).empty();) {
      if (text == kNothing) continue;
      try {
        inference::Session session(pipeline_, fields_.request_of(json::parse(text).at("fields")));
        session.make_rest([](const at::Tensor&) {});
      } catch (const std::exception& e) {  // which the first rank has too
        log_line(KINORA_LOG_DEBUG, e.what());
      }
    }
  }

  static bool is_live(const json& message) { return message.contains("live"); }
  static std::string id_of(const json& message) {
    return text_in(message, is_live(message) ? "live" : "make");
  }

  // A video or live session that is made.
  struct AtWork {
    inference::Session* session = nullptr;
    bool is_cancelled = false;
  };

  // The next videos to make together, or the next live session. False: there are none any more.
  bool next(std::vector<json>& out) {
    std::unique_lock lock(mutex_);
    constexpr std::chrono::milliseconds kLook{100};  // for a signal
    while (waiting_.empty() && !is_over_ && !cancelled()) {
      for (const auto& id : std::exchange(forgotten_, {})) past_.forget(id);
      changed_.wait_for(lock, kLook);
    }
    if (is_over_ || cancelled()) return false;
    out = std::move(waiting_.front());
    waiting_.pop_front();
    for (const auto& one : out) at_work_[id_of(one)] = {};
    return true;
  }

  void read() {
    const std::jthread checker([this] { check(); });
    while (auto message = messages_.next()) {
      if (message->contains("steer")) {
        mail_.push(std::move(*message));
        continue;
      }
      const std::scoped_lock lock(mutex_);
      if (message->contains("check")) unchecked_.push_back(std::move(*message));
      if (message->contains("make") || is_live(*message)) waiting_.emplace_back(1, std::move(*message));
      if (message->contains("batch")) waiting_.push_back(message->at("batch").get<std::vector<json>>());
      if (message->contains("cancel")) cancel(text_in(*message, "cancel"));
      if (message->contains("forget")) forgotten_.push_back(text_in(*message, "forget"));
      changed_.notify_all();
    }
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
    for (auto& [id, _] : at_work_) stop(id);
    changed_.notify_all();
  }

  // A check may read a given video, so that it is none of the reader's work.
  void check() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return is_over_ || !unchecked_.empty(); });
      if (is_over_) return;
      const json message = std::move(unchecked_.front());
      unchecked_.pop_front();
      lock.unlock();
      messages_.send(fields_.checked(message));
      lock.lock();
    }
  }

  // With the lock, as the next one. The video or live session is at work.
  void stop(const std::string& id) {
    AtWork& one = at_work_.at(id);
    one.is_cancelled = true;
    if (one.session) one.session->cancel();
    mail_.push({{"steer", id}, {"stop", true}});
  }

  void cancel(const std::string& id) {
    if (at_work_.contains(id)) stop(id);
    for (auto& together : waiting_)
      std::erase_if(together, [&](const json& one) {
        if (id_of(one) != id) return false;
        messages_.send({{"failed", "cancelled"}, {is_live(one) ? "live" : "video", id}});
        return true;
      });
    std::erase_if(waiting_, [](const auto& together) { return together.empty(); });
  }

  // Each on a thread of its own, which leaves the batch in the end.
  void make_together(const std::vector<json>& wanted) {
    inference::CallBatch batch(pipeline_.turns(), wanted.size());
    const auto make_one = [&](const json& message) {
      const at::NoGradGuard off;
      inference::BatchedVideo batched(batch);
      make(message, batched);
    };
    {
      std::vector<std::jthread> others;
      for (size_t i = 1; i < wanted.size(); ++i) others.emplace_back([&, i] { make_one(wanted[i]); });
      make_one(wanted[0]);
    }
    if (wanted.size() > 1)
      log_info("{}: {} videos shared {} model calls", context_.spec().name, wanted.size(), batch.shared());
  }

  void make(const json& message, inference::BatchedVideo& batched) {
    const std::string id = id_of(message), folder = text_in(message, "folder");
    json end{{is_live(message) ? "live" : "video", id}};
    tell_others(message.dump(-1, ' ', false, json::error_handler_t::replace));
    try {
      const json& fields = message.at("fields");
      if (is_live(message))
        end["done"] = shown(id, folder, fields, message.value("branch", json()));
      else
        end.update(made(id, folder, fields, text_in(message, "frames"), batched));
    } catch (const DiskFull& e) {
      end.update({{"failed", e.what()}, {"code", "disk_full"}});
    } catch (const std::exception& e) {
      end["failed"] = e.what();
    }
    if (end.contains("failed"))
      tell_others(kNothing);  // throws if a rank is lost: then the video has not failed
    const std::scoped_lock lock(mutex_);
    at_work_.erase(id);
    if (!is_over_) messages_.send(end);
  }

  // The members of "done" and "times", and "settings" if frames are asked for. form: of FrameFiles, or "".
  json made(const std::string& id, const fs::path& folder, const json& fields, const std::string& form,
            inference::BatchedVideo& batched) {
    const GenerateOptions options = fields_.options_of(fields);
    const Request request = fields_.request_of(fields);
    AwaitedSession awaited(pipeline_, request);
    const AboutVideo about(context_, options, pipeline_, made_with_.at(request.lora.name));
    const auto start = std::chrono::steady_clock::now();
    VideoTimes times;
    Stills stills(context_, folder, fields.at("num_frames"));
    double told = -1;  // the progress that was sent last
    const KeptChunks chunks(folder / "chunks", about.known(request).dump());
    inference::Session session(
        pipeline_, request,
        {.step =
             [&](int64_t) {
               times.step();
               tell(id, session.state(), told);
             },
         .batched = &batched,
         .finished = [&](int64_t chunk, const at::Tensor& latent) { chunks.keep(chunk, latent); },
         // The chunks are on one rank alone.
         .known = [&](int64_t chunk) { return parallel_.world() > 1 ? at::Tensor() : chunks.known(chunk); }});
    const Cancellable here(*this, id, session);
    JointSession joint(session, awaited);
    const auto drift = drift_of(pipeline_, request);
    const auto files = frame_files(id, form, folder, session);
    MadeVideo made;
    json said;
    {
      GrowingVideo growing(context_.runtime().registry(), (folder / "live.mp4").string(),
                           pipeline_.fps(request), options_.crf, without_folders(about.known(request)), {});
      joint.make_rest([&](const at::Tensor& frames) {
        times.frames();
        growing.add(frames);
        stills.add(frames);
        if (drift) drift->add(frames);
        if (files) files->add(frames);
        made.frames += frames.size(0);
        made.height = frames.size(1);
        made.width = frames.size(2);
      });
      static_cast<inference::Session::Made&>(made) = session.made();
      said = about.described(request, made);
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      said["seconds"] = seconds;
      if (!pipeline_.makes_codes()) about.tell_speeds(said, made, seconds);
      growing.finish(without_folders(said));
      if (growing.problem()) give_up(*growing.problem(), folder);
    }
    stills.finish();
    const json by_second = drift ? drift->finish(made.latent, pipeline_.tokenizer_info().time) : json();
    if (!by_second.is_null()) or_throw(write_file_atomically(folder / "drift.json", by_second.dump() + "\n"));
    fs::rename(folder / "live.mp4", folder / "video.mp4");
    chunks.remove();
    const json done{{"num_frames", made.frames}, {"width", made.width}, {"height", made.height}};
    fields_.learn(done, made);
    json out{{"done", done}, {"times", times.told(made)}};
    if (files) out["settings"] = std::move(said);
    return out;
  }

  // Null: none are asked for.
  std::unique_ptr<FrameFiles> frame_files(const std::string& id, const std::string& form,
                                          const fs::path& folder, const inference::Session& session) {
    if (form.empty()) return nullptr;
    return std::make_unique<FrameFiles>(FrameFiles::About{id, form, folder}, session, mail_,
                                        [&](const json& message) { messages_.send(message); });
  }

  // A live session. branch: {"session", "chunk"}, what it continues; null: nothing.
  json shown(const std::string& id, const fs::path& folder, const json& fields, const json& branch) {
    const GenerateOptions options = fields_.options_of(fields);
    const Request request = fields_.request_of(fields);
    const AboutVideo about(context_, options, pipeline_, made_with_.at(request.lora.name));
    const PastSessions::Live live =
        branch.is_null() ? PastSessions::Live{std::make_unique<inference::Session>(pipeline_, request)}
                         : past_.continued(text_in(branch, "session"), branch.at("chunk"));
    inference::Session& session = *live.session;
    const Cancellable here(*this, id, session);
    LiveVideo video({id, folder, request.prompt, live.past}, session,
                    service<VideoFragments>(context_.runtime().registry()),
                    {.fps = pipeline_.fps(request),
                     .crf = options.crf,
                     .comment = without_folders(about.known(request)).dump()},
                    mail_, [&](json message) {
                      message["live"] = id;
                      messages_.send(message);
                    });
    json out = video.run();
    out["seed"] = request.seed;
    past_.keep(id, session, video.past());
    return out;
  }

  // While it lives, the session can be cancelled.
  class Cancellable {
   public:
    Cancellable(Serving& serving, const std::string& id, inference::Session& session)
        : serving_(serving), id_(id) {
      const std::scoped_lock lock(serving.mutex_);
      AtWork& one = serving.at_work_.at(id);
      one.session = &session;
      if (one.is_cancelled || serving.is_over_) session.cancel();
    }
    Cancellable(const Cancellable&) = delete;
    Cancellable& operator=(const Cancellable&) = delete;
    ~Cancellable() {
      const std::scoped_lock lock(serving_.mutex_);
      serving_.at_work_.at(id_).session = nullptr;
    }

   private:
    Serving& serving_;
    const std::string& id_;
  };

  // Work that is done of all work: each chunk has its steps, its clean pass and its decoding.
  void tell(const std::string& id, const inference::Session::State& state, double& told) {
    const auto of_chunk = static_cast<double>(state.steps + 2);
    const double done = (static_cast<double>(state.chunk) * of_chunk + static_cast<double>(state.step)) /
                        std::max(1.0, static_cast<double>(state.chunks) * of_chunk);
    if (done < told + 0.005) return;
    told = done;
    messages_.send({{"progress", done}, {"video", id}});
  }

  JobContext& context_;
  const GenerateOptions options_;
  Parallelism parallel_;
  inference::Pipeline pipeline_;
  RequestFields fields_;
  std::map<std::string, json> made_with_;  // by a video's LoRA
  Messages& messages_;
  LiveMail mail_;
  PastSessions past_;
  std::mutex mutex_;  // of the following
  std::condition_variable changed_;
  std::deque<std::vector<json>> waiting_;  // what is made together
  std::deque<json> unchecked_;
  std::vector<std::string> forgotten_;
  std::map<std::string, AtWork> at_work_;
  bool is_over_ = false;
};

}  // namespace

namespace {

int descriptor_in(const char* variable) {
  const std::string number = environment(variable);
  return number.empty() ? -1 : std::atoi(number.c_str());
}

}  // namespace

int socket_of_requests() { return descriptor_in("KINORA_REQUESTS"); }

void serve_requests(JobContext& context, const GenerateOptions& options, int socket) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // the next server begins this video again
  const int pipe = descriptor_in("KINORA_BEATS");
  for (const int one : {socket, pipe}) fcntl(one, F_SETFD, FD_CLOEXEC);
  const Beats beats(pipe, static_cast<Beat>(here().rank));  // while the pipeline is loaded too
  if (!here().first()) close(socket);
  Messages messages(here().first() ? socket : -1);
  Serving(context, options, messages).run();
}

}  // namespace kinora::core
