#include "open_tokenizer.hpp"

#include <filesystem>

#include "json_text.hpp"
#include "kinora/io.hpp"
#include "older_files.hpp"

namespace kinora::text {
namespace {

constexpr const char* kMeant = "a tokenizer.json, a sentencepiece .model or a folder with one";

std::unique_ptr<Tokenizer> open_file(const std::string& file, const Ends& ends) {
  const std::string bytes = read_file(file, kMeant);
  if (!file.ends_with(".json")) return read_sentencepiece(bytes, file, ends);
  if (ends.begin || ends.end)
    throw Error(KINORA_ERROR_INVALID,
                file +
                    ": add_begin and add_end are for a .model; a tokenizer.json itself names the "
                    "special tokens");
  return read_tokenizer_json(bytes, file);
}

// Only CLIP's class of vocab.json and merges.txt is known; other classes split a text into different words.
std::unique_ptr<Tokenizer> open_clip(const std::filesystem::path& folder, const Json& config) {
  const Json name = config.value("tokenizer_class", Json("CLIPTokenizer"));
  if (!name.is_string() || !name.get<std::string>().starts_with("CLIPTokenizer"))
    throw Error(KINORA_ERROR_UNSUPPORTED, folder.string() + ": how " + name.dump() +
                                              " reads vocab.json and merges.txt is not known here; give its "
                                              "tokenizer.json, which transformers' save_pretrained writes");
  if (std::filesystem::exists(folder / "added_tokens.json"))
    throw Error(KINORA_ERROR_UNSUPPORTED, folder.string() +
                                              ": the tokens of added_tokens.json are not supported; give a "
                                              "tokenizer.json, which transformers' save_pretrained writes");
  const auto text = [&](const char* file) { return read_file((folder / file).string(), kMeant); };
  return read_clip_words(
      {text("vocab.json"), text("merges.txt"), config, object_in(folder / "special_tokens_map.json")},
      folder.string());
}

// Opens a folder that transformers' save_pretrained wrote: tokenizer.json, or the files of older tokenizer
// classes.
std::unique_ptr<Tokenizer> open_folder(const std::filesystem::path& folder, Ends ends) {
  const auto has = [&](const char* name) { return std::filesystem::exists(folder / name); };
  const auto use = [&](const char* name) { return (folder / name).string(); };
  if (has("tokenizer.json")) return open_file(use("tokenizer.json"), ends);
  const Json config = object_in(folder / "tokenizer_config.json");
  if (has("vocab.json") && has("merges.txt")) return open_clip(folder, config);
  if (has("vocab.txt")) {
    const bool lower = config.value("do_lower_case", Json(true)) != false;
    return read_vocab_txt(read_file(use("vocab.txt"), kMeant), use("vocab.txt"), lower);
  }
  if (!has("spiece.model"))
    throw Error(KINORA_ERROR_NOT_FOUND, folder.string() +
                                            ": no tokenizer.json, spiece.model, vocab.txt or vocab.json with "
                                            "merges.txt; give a folder with one of them, or name the file");
  const Json name = config.value("tokenizer_class", Json("T5Tokenizer"));
  const bool is_t5 = name.is_string() && name.get<std::string>().find("T5Tokenizer") != std::string::npos;
  if (!is_t5 && !ends.begin && !ends.end && !ends.unused)
    throw Error(KINORA_ERROR_UNSUPPORTED,
                folder.string() + ": the special tokens of " + name.dump() +
                    " are not known here; name spiece.model, with add_begin and add_end");
  ends.end = ends.end || (is_t5 && !ends.unused);
  return open_file(use("spiece.model"), ends);
}

}  // namespace

std::string read_file(const std::string& path, const std::string& meant) {
  constexpr int64_t kLimit = 64 << 20;
  const Reader reader(path);
  if (reader.size() > kLimit)
    throw Error(KINORA_ERROR_INVALID, path + ": " + std::to_string(reader.size()) + " bytes; give " + meant);
  std::string text(static_cast<size_t>(reader.size()), '\0');
  text.resize(reader.read(0, text.data(), text.size()));
  return text;
}

Json object_in(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return Json::object();
  Json out = parse_json(read_file(file.string(), kMeant));
  if (!out.is_object()) throw Error(KINORA_ERROR_INVALID, file.string() + ": not a JSON object");
  return out;
}

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& file, const Ends& ends) {
  return std::filesystem::is_directory(file) ? open_folder(file, ends) : open_file(file, ends);
}

}  // namespace kinora::text
