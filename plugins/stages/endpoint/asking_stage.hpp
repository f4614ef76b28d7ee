// Base class of this plugin's stages, and the facts that they read.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client.hpp"
#include "kinora/curation.hpp"
#include "kinora/stage.hpp"
#include "timeline.hpp"

namespace kinora::endpoint {

// Whether the caption is the user's own: its facts say so, or name no author.
bool captioned_by_user(const Sample& sample, const Json& facts);

// Returns the times of the sampled frames from the facts frames_at, fps and frames. Without frames_at the
// `count` frames are the whole video. Throws Error(KINORA_ERROR_DATA) if frames_at is not one rising number
// per frame.
Timeline timeline_of(const Json& facts, int64_t count);

// Owns a client, and handles samples without a usable answer.
//
// Each worker asks about one sample and sleeps until the answer comes. So an answered sample is emitted and
// recorded at once, and waiting samples count towards the pipeline's memory. The engine may use many workers
// for this stage, because they take almost no CPU; the account limits how many ask at the same time.
class AskingStage : public Stage {
 public:
  void process(Sample in, const Emit& emit, const Run& run) final;
  void finish(const Emit&, const Run&) final;
  kinora_resources resources() const final { return {sizeof(kinora_resources), 0, kCores, 0.0, 0}; }

 protected:
  // Not 0, which would mean one worker per core; small enough that all workers together leave the cores to
  // other stages.
  static constexpr double kCores = 1e-9;
  AskingStage(std::string name, const ServerOptions& options, const std::string& path)
      : name_(std::move(name)), options_(options), client_(name_, options, path) {}

  // Why a sample is dropped.
  struct Drop {
    double score;
  };
  // Sets fields of the sample and its facts; the caller stores the facts. Error(KINORA_ERROR_DATA) if there
  // is no usable answer; option on_error then decides.
  virtual std::optional<Drop> answer(Sample& in, Json& facts, const Run& run) = 0;

  // Asks the server and adds the usage to the facts ("usage"), also that of a question that fails.
  Json ask(const Question&, Json& facts, const Run&) const;
  // The same for n questions, several at once; answer i belongs to question(i). After the first error no
  // further question is asked.
  std::vector<Json> ask_all(size_t n, const std::function<Question(size_t)>& question, Json& facts,
                            const Run&) const;
  // Error(KINORA_ERROR_DATA) if it has none. to: what the stage does with it, "rewrite".
  std::string_view caption_of(const Sample& sample, const char* to) const;
  const std::string& name() const { return name_; }
  const Client& client() const { return client_; }

 private:
  void count(const Usage&, Json& facts) const;
  std::string name_;
  ServerOptions options_;
  Client client_;
};

}  // namespace kinora::endpoint
