#include "kinora/plugin.hpp"

#include "tokenizer_stage.hpp"
#include "word_piece_stage.hpp"

using kinora::text::TokenizerStage;
using kinora::text::WordPieceStage;
KINORA_COMPONENT(WordPieceStage)
KINORA_COMPONENT(TokenizerStage)
KINORA_PLUGIN(WordPieceStage, TokenizerStage)
