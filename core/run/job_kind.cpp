#include "core/run/job_kind.hpp"

#include <algorithm>

#include "plugins/jobs/curate/curate.hpp"
#include "plugins/jobs/dedup/dedup.hpp"
#include "plugins/jobs/embed-text/embed_text.hpp"
#include "plugins/jobs/training/options/generating.hpp"
#include "plugins/jobs/report/report.hpp"
#include "plugins/jobs/shard/shard.hpp"
#include "plugins/jobs/training/options/training.hpp"

namespace kinora::core {
namespace {

const Slot kEngine{"engine", "engine", "local", true, false, "runs the stages", true};
const Slot kPrecision{"precision", "precision", "fp32",
                      true,        false,       "number format of linear layers and attention"};
const Slot kParallel{"parallel", "parallel", "single", true, true, "strategies, composed", true};
const Slot kCollective{"collective", "collective", "gloo", true, false, "communication between ranks", true};
const Slot kPublishedTokenizer{
    "tokenizer", "tokenizer", "", false, false, "a published one, instead of a train-tokenizer job's",
    false, "tokenizer_weights"};

// Its vocabulary has no default, so a job has to give it.
const Slot kWords{"words", "stage", "text.wordpiece", true, false,
                  "text to tokens, such as words = { use = \"text.wordpiece\", vocab = \"asset:minilm/vocab.txt\" }"};

// What comes of the job is the same whatever is in it.
Slot how_only(Slot slot) {
  slot.how_only = true;
  return slot;
}

JobKind curate() {
  return {
      described_job<CurateOptions>(), {kEngine, {"stages", "stage", "", true, true, "in order"}}, {"path"}};
}

JobKind shard() {
  return {described_job<ShardOptions>(),
          {kEngine, {"shard", "stage", "shard.webdataset", true, false, "the writer"}},
          {"curate", "dedup"}};
}

JobKind dedup() {
  return {described_job<DedupOptions>(),
          {kEngine, {"dedup", "stage", "dedup.semantic", true, false, "decides which clips are copies"}},
          {"curate"}};
}

JobKind embed_text() {
  return {described_job<EmbedTextOptions>(),
          {{"text", "model", "minilm", true, false, "text encoder", false, "text_weights"},
           kWords},
          {"curate"},
          true,
          true};
}

JobKind train_tokenizer() {
  return {described_job<TrainTokenizerOptions>(),
          {{"tokenizer", "tokenizer", "", true, false, "what is trained", false, "weights"},
           {"perceptual", "loss", "", false, false, "distance of two videos, such as lpips"},
           {"critic", "model", "", false, false, "discriminator of an adversarial loss: patch-discriminator"},
           {"features", "model", "", false, false,
            "encoder of videos or images for the frechet_distance of judged clips: clip-vision", false, "features_weights"},
           kParallel,
           kCollective},
          {"shard", "path"},
          true,
          true};
}

JobKind encode() {
  return {described_job<EncodeOptions>(),
          {{"read", "stage", "video.read", true, false, "decodes clips"},
           kPublishedTokenizer,
           {"text", "model", "minilm", true, false, "text encoder", false, "text_weights"},
           kWords,
           {"image_encoder", "model", "", false, false,
            "caches embeddings of a window's first frame as `image`: clip-vision", false, "image_encoder_weights"},
           {"parallel", "parallel", "ddp", true, true,
            "strategies, composed; ddp divides the clips, those along cp the time of each", true},
           how_only(kCollective)},
          {"shard", "path", "train-tokenizer"},
          true,
          true};
}

JobKind train() {
  return {described_job<TrainOptions>(),
          {{"model", "model", "", true, false, "what is trained", false, "weights"},
           {"loss", "loss", "edm", true, false, "what it is trained on"},
           {"sampler", "sampler", "", false, false,
            "draws the samples that sample_every asks for; by default edm-heun or flow-euler, after the loss", true},
           kParallel,
           kPrecision,
           kCollective},
          {"encode"},
          true,
          true};
}

JobKind generate() {
  return {described_job<GenerateOptions>(),
          {{"sampler", "sampler", "edm-heun", true, false, "noise to sample"},
           {"model", "model", "", false, false, "a published one, instead of a train job's", false, "weights"},
           {"loss", "loss", "", false, false, "what that model was trained on"},
           kPublishedTokenizer,
           {"text", "model", "", false, false, "text encoder, instead of the encode job's", false, "text_weights"},
           {"words", "stage", "", false, false, "text to tokens, for `text`"},
           {"image_encoder", "model", "", false, false,
            "encoder of the picture that a video begins with, instead of the encode job's: clip-vision", false,
            "image_encoder_weights"},
           {"parallel", "parallel", "ddp", true, true,
            "strategies, composed; ddp makes other videos on other ranks", true},
           kPrecision,
           how_only(kCollective)},
          {"train", "train-tokenizer"},
          false,
          true};
}

JobKind report() { return {described_job<ReportOptions>(), {}, {}, false, false}; }

}  // namespace

bool JobKind::spread() const {
  return std::any_of(slots.begin(), slots.end(), [](const Slot& s) { return s.name == "parallel"; });
}

ComponentSpec job_component(const std::string& toml) {
  auto job = or_throw(parse_component(toml, "job"));
  job.kind = "job";
  job.id = "job/" + job.name;
  return job;
}

const std::vector<JobKind>& job_kinds() {
  static const std::vector<JobKind> kinds{curate(), dedup(), embed_text(), shard(), train_tokenizer(),
                                          encode(), train(), generate(),   report()};
  return kinds;
}

}  // namespace kinora::core
