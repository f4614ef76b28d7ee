// Tokenizers and the files next to them, by the host's I/O.
#pragma once
#include <filesystem>

#include "tokenizer.hpp"

namespace kinora::text {

// Reads the whole file. Throws Error if it is larger than any tokenizer; `meant` names the expected file.
std::string read_file(const std::string& path, const std::string& meant);

// Reads a JSON object from a file that the folder may lack: then it is empty. Throws Error.
Json object_in(const std::filesystem::path& file);

// file: a tokenizer.json, a sentencepiece .model, or a folder that transformers' save_pretrained wrote: with a
// tokenizer.json, or with the files of older tokenizer classes. Throws Error.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& file, const Ends& ends);

}  // namespace kinora::text
