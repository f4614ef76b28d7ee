#include "chat_stage.hpp"

#include "ids.hpp"
#include "kinora/plugin.hpp"
#include "open_tokenizer.hpp"

namespace kinora::text {
namespace {

// The chat template in the tokenizer's folder, and its file.
std::pair<std::string, std::string> template_in(const std::filesystem::path& folder) {
  const auto jinja = folder / "chat_template.jinja";
  if (std::filesystem::exists(jinja)) return {read_file(jinja.string(), "a chat template"), jinja.string()};
  for (const char* name : {"chat_template.json", "tokenizer_config.json"}) {
    Json found = object_in(folder / name).value("chat_template", Json());
    if (found.is_array())  // several, each with its name
      for (const Json& one : Json(found))
        if (one.is_object() && one.value("name", Json()) == "default") found = one.value("template", Json());
    if (found.is_string()) return {found.get<std::string>(), (folder / name).string()};
  }
  std::string names;
  for (const auto& name : layout_names()) names += " " + name;
  throw Error(KINORA_ERROR_NOT_FOUND, folder.string() +
                                          ": no chat_template in chat_template.jinja, chat_template.json or "
                                          "tokenizer_config.json; set the option template to one of" +
                                          names);
}

ChatLayout layout_of(const ChatStage::Options& o) {
  if (o.layout != "auto") return find_layout(o.layout);
  const std::filesystem::path file = o.file;
  const auto [jinja, where] = template_in(std::filesystem::is_directory(file) ? file : file.parent_path());
  return recognise_layout(jinja, where);
}

}  // namespace

void ChatStage::describe(Describe<Options>& d) {
  auto names = layout_names();
  names.insert(names.begin(), "auto");
  d.name("text.chat")
      .help("Turns a chat, JSON messages with text, images and videos, into a prompt and its token ids");
  d.option("file", &Options::file)
      .path()
      .required()
      .help("tokenizer.json, a sentencepiece model, or a folder saved by transformers");
  d.option("template", &Options::layout)
      .choices(names)
      .help(
          "layout of the prompt; auto: that of the folder's chat template, if it is one of chatml, with its "
          "own "
          "default system text, or llama3. vila: of VILA's own file; plain: contents alone, for captions");
  d.option("from", &Options::from).help("field that holds the messages, [{role, content}]");
  d.option("to", &Options::to).help("field that gets the prompt");
  d.option("labels", &Options::labels)
      .help("also set tensor labels, for training; a chat without an answer then fails");
  d.output("input_ids", "[L]", "int64", "token ids of the prompt; an image or a video is one id");
  d.output("attention_mask", "[L]", "int64", "1 for each token of the prompt");
  d.output("media", "[M, 2]", "int64",
           "position of the first id and number of ids of each image and video, in order");
  d.output("labels", "[L]", "int64", "token ids of the answers and of the tokens that close them, else -100",
           {.when = "labels"});
}

ChatStage::ChatStage(const Options& options)
    : options_(options),
      prompts_(layout_of(options), open_tokenizer(options.file, {.unused = true}), options.file) {}

void ChatStage::process(Sample in, const Emit& emit, const Run&) {
  const Prompt prompt = prompts_.make(in.need(options_.from.c_str()), options_.labels);
  in.set(options_.to.c_str(), prompt.text);
  set_ids(in, "input_ids", prompt.ids);
  set_ids(in, "attention_mask", std::vector<int64_t>(prompt.ids.size(), 1));
  set_ids(in, "media", prompt.media, 2);
  if (options_.labels) set_ids(in, "labels", prompt.labels);
  emit(std::move(in));
}

}  // namespace kinora::text

using kinora::text::ChatStage;
KINORA_COMPONENT(ChatStage)
