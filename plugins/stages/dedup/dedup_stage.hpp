// stage/dedup.semantic: keeps one clip of each set of equal or nearly equal clips.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "aligned.hpp"
#include "kinora/npy.hpp"
#include "kinora/sample.hpp"
#include "kinora/stage.hpp"
#include "preference.hpp"

namespace kinora::dedup {

// A clip with its rank in the keep order and its content.
struct Clip {
  Sample sample;
  std::string content = {};  // hash of its bytes; "" if unknown or known to be unique
  Quality quality = {};
  std::string video = {};  // key of the video that it was cut from; "" for others
  double eps = 0;          // largest cosine distance of copies by the embedding alone
  bool picture = false;
};

// score: the one that keep = "best" compares.
Clip clip_of(Sample sample, const std::string& score);

// Returns field NAME.npy as a vector of norm 1. Error(KINORA_ERROR_NOT_FOUND or KINORA_ERROR_DATA) if it is
// missing, of another size than `size` (0: any), not finite or zero.
std::vector<float> unit_embedding(const Sample& sample, const std::string& name, int64_t size);

// The eps that the component which made the embedding has noted in the facts, else 0.01.
double eps_of_embedding(const Sample& sample, const std::string& name);

class DedupSemantic final : public Stage {
 public:
  struct Options {
    std::string embedding = "classic", name, keep = "largest", score, mode = "on";
    double eps = -1, reach = 0.25, motion = 0.85;
    bool exact = true, semantic = true;
    int64_t clusters = 0, iterations = 20, seed = 1234;
    int64_t memory = 0;
  };
  static void describe(Describe<Options>& d);
  explicit DedupSemantic(const Options& o);
  // Holds every clip until finish(), which drops duplicates by rule "dedup.exact" (score 1) or
  // "dedup.semantic" (score: the cosine). A duplicate gets json["duplicate"] = {"of": KEY, "similarity": s,
  // "why": a sentence}, where `of` is the clip kept in its place; if the similarity is with another clip,
  // itself a duplicate of `of`, "nearest" names that clip. If their frames were compared, "motion" has
  // {"correlation", "speed", "offset_s"}; the speed is rough, off by up to 0.1 for clips of a few seconds. Every
  // compared clip gets json["dedup"] = {"cluster"}. With mode = "score" duplicates are kept, and json["scores"]
  // has the score under the rule's name.
  // Error(KINORA_ERROR_NO_MEMORY), which ends the run, if the clips so far take more than `memory`.
  void process(Sample in, const Emit& emit, const Run& run) override;
  void finish(const Emit& emit, const Run& run) override;
  // One instance receives all clips, in the order of the source.
  kinora_resources resources() const override { return {sizeof(kinora_resources), 1, 1.0, 0.0, 0}; }

 private:
  struct Verdict {
    const char* rule = nullptr;  // null: the clip is kept
    size_t of = 0;               // index of the clip that it is a copy of
    double similarity = 0;
    Aligned motion = {};  // correlation -1: the frames were not compared
    int64_t cluster = -1;
    size_t stays = 0;  // index of the kept clip that following `of` leads to
  };
  // Adds the bytes held for a clip to those of earlier clips.
  void count(const Sample& sample, size_t numbers);
  void find_exact(const std::vector<size_t>& order, std::vector<Verdict>& verdicts) const;
  void find_near(const std::vector<size_t>& order, std::vector<Verdict>& verdicts, const Run& run);
  // Whether clip `i` is a copy of `of`, whose embeddings have this cosine. own: signature of clip `i`.
  Verdict compare(size_t i, const Signature& own, size_t of, double similarity) const;
  Signature signature(size_t i) const;
  static nlohmann::json duplicate(const Verdict& verdict, const std::vector<std::string>& keys);
  // Whether clip i stays, and what it is a copy of goes. decided: by decide_videos().
  using Decided = std::map<std::pair<std::string, std::string>, bool>;
  bool replaces(size_t i, size_t of, const Decided& decided) const;
  // For each two videos of which clips are copies, whether the clips of the first one stay: one decision for all, so
  // that no video is kept in pieces. Empty for the rules that choose among clips.
  Decided decide_videos(const std::vector<Verdict>& verdicts) const;
  static Verdict turned(const Verdict& link, size_t from, int64_t cluster);
  // Decides for each set of copies which one stays.
  void settle(const std::vector<size_t>& order, std::vector<Verdict>& verdicts) const;
  Options options_;
  Keep keep_;
  std::vector<Clip> clips_;
  std::vector<std::vector<float>> vectors_;  // [clips_][size_]
  int64_t size_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace kinora::dedup
