#include "chat.hpp"

namespace kinora::text {
namespace {

using Turn = ChatLayout::Turn;

ChatLayout chatml(const std::string& name, std::optional<std::string> system) {
  const auto turn = [](const std::string& role) {
    return Turn{"\1<|im_start|>\1" + role + "\n", "", "\1<|im_end|>\1\n"};
  };
  return {name, "", turn("system"), turn("user"), turn("assistant"), std::move(system)};
}

ChatLayout llama3() {
  const auto turn = [](const std::string& role) {
    return Turn{"\1<|start_header_id|>\1" + role + "\1<|end_header_id|>\1\n\n", "", "\1<|eot_id|>\1"};
  };
  return {"llama3", "\1<|begin_of_text|>\1", turn("system"), turn("user"), turn("assistant"), {}, true};
}

const std::vector<ChatLayout>& layouts() {
  static const std::vector<ChatLayout> all{
      chatml("chatml", {}),
      // Qwen2, Qwen2-VL, Qwen2.5-VL
      chatml("qwen2", "You are a helpful assistant."),
      chatml("qwen2.5", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
      chatml("vila", "You are a helpful assistant"),
      llama3(),
      // FastChat's vicuna_v1.1
      {"vicuna",
       "\1<s>\1",
       {"", "", " "},
       {"USER:", " ", " "},
       {"ASSISTANT:", " ", "\1</s>\1"},
       "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, "
       "detailed, and polite answers to the user's questions."},
      // LLaVA's first stage: media, then the caption
      {"plain", "", {"", "", "\n"}, {""}, {"", "", "\n"}},
  };
  return all;
}

}  // namespace

std::vector<std::string> layout_names() {
  std::vector<std::string> out;
  for (const auto& l : layouts()) out.push_back(l.name);
  return out;
}

ChatLayout find_layout(const std::string& name) {
  for (const auto& l : layouts())
    if (l.name == name) return l;
  std::string known;
  for (const auto& l : layouts()) known += (known.empty() ? "" : ", ") + l.name;
  throw Error(KINORA_ERROR_INVALID, "the template '" + name + "' is not known; the known ones are " + known);
}

}  // namespace kinora::text
