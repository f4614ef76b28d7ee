// The making of one video by a pipeline. The session has what belongs to the video: its noise, its sampler or
// its cache of keys and values, its prompt, its progress and its cancellation.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "plugins/jobs/inference/pipeline.hpp"
#include "plugins/jobs/inference/request.hpp"
#include "plugins/jobs/inference/session_control.hpp"

namespace kinora::core::inference {

// Sessions of one pipeline may run at once, each on a thread of its own: the calls of the networks take turns,
// one step of a sampler (a denoiser call) or one code at a time; and the tokenizer's, one latent frame at a time. A
// video is the same bytes whatever other sessions do. Errors are kinora::Error; after one the session is over.
class Session {
 public:
  // Functions that the session calls, on the thread of next_chunk(), and the video's place among others.
  struct Watch {
    // A step of the current chunk, or a code, is done.
    std::function<void(int64_t done)> step = nullptr;
    // The forming first frame, uint8 [1, H, W, 3], after every preview_every steps (0: never). Called on every
    // rank that works on the video; only the first receives a frame.
    std::function<void(int64_t step, const at::Tensor& frame)> preview = nullptr;
    int64_t preview_every = 0;
    // Its calls of a model that makes a video at once are made with others'. It must outlive the session.
    BatchedVideo* batched = nullptr;
    // The latent frames that a finished chunk has added, [1, C, T, H, W]; a view.
    std::function<void(int64_t chunk, const at::Tensor& latent)> finished = nullptr;
    // The latent that another session of this request gave to finished() for the chunk, which then has no steps;
    // undefined: it is made.
    std::function<at::Tensor(int64_t chunk)> known = nullptr;
  };
  // The pipeline must outlive the session.
  Session(Pipeline& pipeline, Request request, Watch watch);
  Session(Pipeline& pipeline, Request request) : Session(pipeline, std::move(request), Watch()) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  // [owner-thread] Makes the next frames, uint8 [T, H, W, 3]; nothing after the last. A model that makes its
  // video chunk by chunk, with a tokenizer that decodes in a stream, gives each chunk; any other gives the
  // whole video once. Undefined on all ranks that work on the video but the first. Throws
  // Error(KINORA_ERROR_CANCELLED) if this session or the run was asked to stop.
  std::optional<at::Tensor> next_chunk();

  using Take = std::function<void(const at::Tensor& frames)>;
  // [owner-thread] Makes all that is left, and calls take() with what next_chunk() would return. If that is chunks,
  // another thread decodes them, and calls take(), while this one makes the next: at most two wait for it. It looks
  // for a cancellation between two latent frames. An error of decoding or of take() ends the session, and is
  // thrown here when the next chunk is made.
  void make_rest(const Take& take);

  // [owner-thread] Forgets the chunks from this one on (0: the first that the session made). next_chunk() then makes
  // them again: with the prompts that they had, bit for bit, or from the next set_prompt() or set_shot() on with its
  // prompt. It first replays the clean passes and the decoding of the chunks that stay, a forward for each. A video
  // that is complete may be rewound too. If several ranks work on the video, all make this call. The counts of made()
  // go on.
  // Throws Error(KINORA_ERROR_UNSUPPORTED) for a pipeline that makes its video at once, and
  // Error(KINORA_ERROR_INVALID) for a chunk that is not finished or a session that was cancelled or has failed.
  void rewind(int64_t chunk);
  // [owner-thread] Another session, which continues after the finished chunks of this one; each then goes its own way.
  // This one may have been cancelled or have failed. The other one gives the frames after those that this one gave, and
  // first replays as after rewind(). Throws Error(KINORA_ERROR_UNSUPPORTED) for a pipeline that makes its video at once
  // or that several ranks share.
  std::unique_ptr<Session> branch(Watch watch);
  std::unique_ptr<Session> branch() { return branch(Watch()); }
  // [owner-thread] After the first chunk: whether the session gives more than one, and the number of frames of all of
  // them together.
  bool gives_chunks() const;
  int64_t frames() const;

  // [any-thread] Acts from the next chunk on that has not begun. Throws Error(KINORA_ERROR_INVALID) if there
  // is none, if the session was cancelled or has failed, or if the pipeline reads no text.
  void set_prompt(std::string prompt);
  // [any-thread] The same with a cut or a switch, which need a model that keeps keys and values. The video is then the
  // one of a list of these shots.
  void set_shot(Shot shot);
  // [any-thread] Ends the session at its next step, and no other. If several ranks work on the video, a call
  // on any of them ends it on all of them, after the same step.
  void cancel() { control_.cancel(); }

  using State = SessionControl::State;
  // [any-thread]
  State state() const { return control_.state(); }
  // [any-thread] It was cancelled or has failed. A take() of make_rest() that waits must then return.
  bool has_ended() const { return control_.has_ended(); }

  // The results besides the frames, complete after the last chunk. The session then has the latents twice: these, and
  // normalised the ones that it read. Until then it has only the latter, the cache and the frames of one chunk, and in
  // make_rest() the latents of three.
  struct Made {
    at::Tensor latent;                            // as decoded: [1, C, t, h, w], or int64 codes [1, t, h, w]
    int64_t nfe = 0, model_calls = 0, steps = 0;  // nfe: denoiser calls, or drawn codes
    // Sizes of the cache of keys and values, before the video's end; text_bytes: the text's share of cache_bytes.
    int64_t cache_bytes = 0, text_bytes = 0, cache_tokens = 0;
    double denoise_seconds = 0, decode_seconds = 0;
    nlohmann::json shots;  // the first pixel frame and the prompt of each, if there are any
  };
  const Made& made() const { return made_; }

 private:
  class Video;          // the two ways in which a video is made
  class DenoisedVideo;  // by a sampler and a denoiser
  class DrawnVideo;     // code by code

  // work(): on the video. An error ends the session.
  void while_alive(const std::function<void()>& work);
  void open_video();
  void require_chunks(const char* what) const;
  // The latent of the finished chunks, undefined if there are none.
  at::Tensor finished() const;
  bool is_asked_to_stop() const;
  // Between two steps, which all ranks of the video reach: if one of them was asked to stop, all stop.
  void stop_at_border() const;
  // At any other place. With other ranks, which would wait for this one, it does nothing until the border.
  void stop_if_alone() const;
  void end_by_error(bool was_cancelled);
  // The caller has a turn: lets others have theirs.
  void pass_turn();
  void note_step(int64_t done);
  // Frames behind this many are cut off; 0: none.
  int64_t wanted_frames() const { return pipeline_.wanted_frames(request_); }
  // Without those behind the video's end, which a last chunk has.
  at::Tensor cut(const at::Tensor& frames);
  // The whole latent so far.
  at::Tensor decoded(const at::Tensor& latent);

  Pipeline& pipeline_;
  const Request request_;
  const Watch watch_;
  SessionControl control_;
  // The run of the tokenizer's calls; others have their turn between two latent frames.
  kinora_run run_{};
  Made made_;
  int64_t given_ = 0;  // frames that next_chunk() gave
  bool is_over_ = false;
  std::unique_ptr<Video> video_;
  int64_t chunks_given_ = 0;  // finished ones, when next_chunk() last returned
  // Latents of the finished chunks that the next call replays, and perhaps of later ones; undefined: it replays none.
  at::Tensor replayed_;
};

}  // namespace kinora::core::inference
