// stage/dedup.semantic: of clips that are the same, or nearly, one goes on.
#pragma once
#include <vector>

#include "clip.hpp"
#include "kinora/stage.hpp"

namespace kinora::dedup {

class DedupSemantic final : public Stage {
 public:
  struct Options {
    std::string name = "classic", keep = "largest", score, mode = "on";
    double eps = -1;
    bool exact = true, semantic = true;
    int64_t clusters = 0, iterations = 20, seed = 1234;
    int64_t memory = 0;
  };
  static void describe(Describe<Options>& d);
  explicit DedupSemantic(const Options& o);
  // Keeps every clip back until finish(), which drops those that a rule names: "dedup.exact" (score 1) and
  // "dedup.semantic" (score: the cosine). json["duplicate"] = {"of": KEY, "similarity": s} of those: `of` is the
  // clip that stays for it; where the similarity is with another one, which went for the same, "nearest" is that.
  // json["dedup"] = {"cluster"} of all that were compared. With mode = "score" they stay, and json["scores"]
  // has the score by its rule's name. Error(KINORA_NO_MEMORY), which ends the run: the clips so far take more
  // than `memory`.
  void process(Sample in, const Emit& emit, const Run& run) override;
  void finish(const Emit& emit, const Run& run) override;
  // One instance sees all, in the order of the source.
  kinora_resources resources() const override { return {sizeof(kinora_resources), 1, 1.0, 0.0, 0}; }

 private:
  struct Verdict {
    const char* rule = nullptr;  // null: it stays
    size_t of = 0;               // the most similar one before it
    double similarity = 0;
    int64_t cluster = -1;
    size_t stays = 0;  // what `of` leads to that no rule drops
  };
  // Counts what is kept of a clip beside those before it.
  void count(const Sample& sample, size_t numbers);
  void find_exact(const std::vector<size_t>& order, std::vector<Verdict>& verdicts) const;
  void find_near(const std::vector<size_t>& order, std::vector<Verdict>& verdicts);
  static void follow(const std::vector<size_t>& order, std::vector<Verdict>& verdicts);
  Options options_;  // with the eps of its embedding
  std::vector<Clip> clips_;
  std::vector<std::vector<float>> vectors_;  // [clips_][size_]
  int64_t size_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace kinora::dedup
