// stage/text.chat: chats as prompts of a language model.
#pragma once
#include "chat.hpp"
#include "kinora/stage.hpp"

namespace kinora::text {

// Sets field `to` to the prompt of the chat in field `from`, in the layout of the folder's chat template, and the
// tensors input_ids and attention_mask, int64 [L]; media, int64 [M, 2]; with `labels` also labels, int64 [L]. See
// ChatPrompts::make for chats and for what fails a sample. The constructor throws Error for a chat template that is
// not known, because its prompts would be silently wrong.
class ChatStage final : public Stage {
 public:
  struct Options {
    std::string file = "tokenizer.json";
    std::string layout = "auto";
    std::string from = "chat.json";
    std::string to = "prompt.txt";
    bool labels = false;
  };
  static void describe(Describe<Options>& d);
  explicit ChatStage(const Options& options);
  void process(Sample in, const Emit& emit, const Run& run) override;

 private:
  Options options_;
  ChatPrompts prompts_;
};

}  // namespace kinora::text
