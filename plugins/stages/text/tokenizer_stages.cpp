#include "tokenizer_stages.hpp"

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "clean.hpp"
#include "json_text.hpp"
#include "kinora/io.hpp"
#include "kinora/plugin.hpp"
#include "kinora/sample.hpp"
#include "older_files.hpp"

namespace kinora::text {
namespace {

// Reads the whole file. Throws Error if it is larger than any tokenizer; `meant` names the expected file.
std::string read_file(const std::string& path, const std::string& meant) {
  constexpr int64_t kLimit = 64 << 20;
  const Reader reader(path);
  if (reader.size() > kLimit)
    throw Error(KINORA_ERROR_INVALID, path + ": " + std::to_string(reader.size()) + " bytes; give " + meant);
  std::string text(static_cast<size_t>(reader.size()), '\0');
  text.resize(reader.read(0, text.data(), text.size()));
  return text;
}

// Sets tensor `name`, int64 [L].
void set_ids(Sample& sample, const char* name, const std::vector<int64_t>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(int64_t));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  sample.set_tensor(name, std::move(bytes), {static_cast<int64_t>(values.size())}, KINORA_DL_INT, 64);
}

constexpr size_t kAllOfIt = size_t{1} << 40;  // ids

// Adds fact `tokens`, how many ids the whole text has, if they are more than are taken.
void note_cut(Sample& sample, size_t all, size_t most) {
  if (all <= most) return;
  Json facts = parse_json(sample.text("json").value_or("{}"));
  if (!facts.is_object()) return;
  facts["tokens"] = all;
  sample.set("json", facts.dump(-1, ' ', false, Json::error_handler_t::replace));
}

constexpr const char* kMeant = "a tokenizer.json, a sentencepiece .model or a folder with one";

std::unique_ptr<Tokenizer> open(const TokenizerStage::Options& o) {
  const std::string bytes = read_file(o.file, kMeant);
  if (!o.file.ends_with(".json")) return read_sentencepiece(bytes, o.file, {o.add_begin, o.add_end});
  if (o.add_begin || o.add_end)
    throw Error(KINORA_ERROR_INVALID,
                o.file +
                    ": add_begin and add_end are for a .model; a tokenizer.json itself names the "
                    "special tokens");
  return read_tokenizer_json(bytes, o.file);
}

// Reads a file that the folder may lack.
Json object_in(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return Json::object();
  Json out = parse_json(read_file(file.string(), kMeant));
  if (!out.is_object()) throw Error(KINORA_ERROR_INVALID, file.string() + ": not a JSON object");
  return out;
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
std::unique_ptr<Tokenizer> open_folder(TokenizerStage::Options o) {
  const std::filesystem::path folder = o.file;
  const auto has = [&](const char* name) { return std::filesystem::exists(folder / name); };
  const auto use = [&](const char* name) { return o.file = (folder / name).string(); };
  if (has("tokenizer.json")) return use("tokenizer.json"), open(o);
  const Json config = object_in(folder / "tokenizer_config.json");
  if (has("vocab.json") && has("merges.txt")) return open_clip(folder, config);
  if (has("vocab.txt")) {
    const bool lower = config.value("do_lower_case", Json(true)) != false;
    return read_vocab_txt(read_file(use("vocab.txt"), kMeant), o.file, lower);
  }
  if (!has("spiece.model"))
    throw Error(KINORA_ERROR_NOT_FOUND, folder.string() +
                                            ": no tokenizer.json, spiece.model, vocab.txt or vocab.json with "
                                            "merges.txt; give a folder with one of them, or name the file");
  const Json name = config.value("tokenizer_class", Json("T5Tokenizer"));
  const bool ends = name.is_string() && name.get<std::string>().find("T5Tokenizer") != std::string::npos;
  if (!ends && !o.add_begin && !o.add_end)
    throw Error(KINORA_ERROR_UNSUPPORTED,
                o.file + ": the special tokens of " + name.dump() +
                    " are not known here; name spiece.model, with add_begin and add_end");
  o.add_end |= ends;
  return use("spiece.model"), open(o);
}

}  // namespace

void TokenizerStage::describe(Describe<Options>& d) {
  d.name("text.tokenizer")
      .help("Tokenizes a caption with a published tokenizer: tokenizer.json or a sentencepiece .model");
  d.option("file", &Options::file)
      .path()
      .required()
      .help(
          "tokenizer.json (BPE, Unigram, WordPiece), a sentencepiece model (Unigram, BPE), or a folder "
          "saved by transformers");
  d.option("from", &Options::from).help("field that holds the text");
  d.option("max_length", &Options::max_length)
      .range(1, 1 << 20)
      .help(
          "most ids, including special ones; the end of a longer text is cut off, and fact tokens says how "
          "many it has. The file's own limit is not used");
  d.option("pad", &Options::pad)
      .choices({"none", "max_length"})
      .help("padding; max_length: fills every text up to that length, with 0 in attention_mask");
  d.option("pad_id", &Options::pad_id)
      .range(-1, 1 << 24)
      .help("id used as padding; -1: the file's padding token");
  d.option("clean", &Options::clean)
      .help(
          "repair the text first, as Wan's code and diffusers do: what ftfy repairs (text in a wrong "
          "encoding, "
          "curly quotes, ligatures, control characters), HTML references, white space");
  d.option("add_begin", &Options::add_begin).help("put a .model's <s> before every text");
  d.option("add_end", &Options::add_end).help("put a .model's </s> after every text, as T5 and UMT5 require");
  d.output("input_ids", "[L]", "int64", "token ids of the caption");
  d.output("attention_mask", "[L]", "int64", "1 for each token of the caption, 0 for padding");
}

TokenizerStage::TokenizerStage(const Options& options)
    : options_(options),
      tokenizer_(std::filesystem::is_directory(options.file) ? open_folder(options) : open(options)) {
  if (options_.pad_id < 0) options_.pad_id = tokenizer_->padding().value_or(-1);
  if (options_.pad != "none" && options_.pad_id < 0)
    throw Error(KINORA_ERROR_INVALID, options_.file + ": the file names no padding token; set pad_id");
}

void TokenizerStage::process(Sample in, const Emit& emit, const Run&) {
  const std::string_view text = in.need(options_.from.c_str());
  const auto most = static_cast<size_t>(options_.max_length);
  const std::string repaired = options_.clean ? cleaned(text) : std::string(text);
  auto ids = tokenizer_->encode(repaired, most);
  if (ids.size() == most) note_cut(in, tokenizer_->encode(repaired, kAllOfIt).size(), most);
  if (ids.size() > most)
    throw Error(KINORA_ERROR_INVALID, "max_length = " + std::to_string(most) +
                                          " leaves no room for the special tokens around a text");
  std::vector<int64_t> mask(ids.size(), 1);
  if (options_.pad != "none") {
    ids.resize(most, options_.pad_id);
    mask.resize(most, 0);
  }
  set_ids(in, "input_ids", ids);
  set_ids(in, "attention_mask", mask);
  emit(std::move(in));
}

void WordPieceStage::describe(Describe<Options>& d) {
  d.name("text.wordpiece").help("Tokenizes a caption with BERT's uncased WordPiece");
  d.option("vocab", &Options::vocab).path().required().help("a BERT vocabulary, one piece per line");
  d.option("from", &Options::from).help("field that holds the text");
  d.option("max_length", &Options::max_length).range(2, 1 << 20).help("most ids, including [CLS] and [SEP]");
  d.output("input_ids", "[L]", "int64", "token ids of the caption");
  d.output("attention_mask", "[L]", "int64", "1 for each token of the caption, 0 for padding");
}

WordPieceStage::WordPieceStage(const Options& options)
    : options_(options),
      pieces_(read_vocab_txt(read_file(options.vocab, "the vocab.txt of a BERT tokenizer"), options.vocab)) {}

void WordPieceStage::process(Sample in, const Emit& emit, const Run&) {
  const auto most = static_cast<size_t>(options_.max_length);
  const std::string_view text = in.need(options_.from.c_str());
  const auto ids = pieces_->encode(text, most);
  if (ids.size() == most) note_cut(in, pieces_->encode(text, kAllOfIt).size(), most);
  set_ids(in, "input_ids", ids);
  set_ids(in, "attention_mask", std::vector<int64_t>(ids.size(), 1));
  emit(std::move(in));
}

}  // namespace kinora::text

using kinora::text::TokenizerStage;
using kinora::text::WordPieceStage;
KINORA_COMPONENT(WordPieceStage)
KINORA_COMPONENT(TokenizerStage)
KINORA_PLUGIN(WordPieceStage, TokenizerStage)
