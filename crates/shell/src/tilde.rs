//! Tildes: whose home, or which folder, a tilde names.
//!
//! `bash` and `dash` look for a tilde in what was written, `zsh` looks for it in the result of an expansion, so `~$user` is
//! a home only in `zsh`.

use brush_parser::word::{TildeExpr, WordPiece as Piece, WordPieceWithSource};

use super::walk::Shell;

impl Shell<'_> {
    /// Returns the home of the user whose name is expanded behind the tilde in front: `~$user/rest`.
    pub(super) fn joined_tilde(&mut self, pieces: &[WordPieceWithSource]) -> String {
        let (first, rest) = pieces.split_first().map_or((None, pieces), |(first, rest)| (Some(first), rest));
        let mut text = match first.map(|first| &first.piece) {
            Some(Piece::Text(text)) => text.trim_start_matches('~').to_owned(),
            Some(Piece::TildeExpansion(TildeExpr::UserHome(user))) => user.clone(),
            _ => String::new(),
        };
        text.push_str(&self.pieces_as_one(rest));
        let user = text.split('/').next().unwrap_or_default();
        let home = self.tilde(&match user {
            "" => TildeExpr::Home,
            user => TildeExpr::UserHome(user.to_owned()),
        });
        home + text.get(user.len()..).unwrap_or_default()
    }

    pub(super) fn tilde(&mut self, tilde: &TildeExpr) -> String {
        match tilde {
            TildeExpr::Home => match self.state.assigned("HOME") {
                Some(home) => home.scalar().to_owned(),
                None => self.place.home().to_owned(),
            },
            TildeExpr::UserHome(user) if user == "root" => "/root".into(),
            TildeExpr::UserHome(user) => format!("/home/{user}"),
            TildeExpr::WorkingDir => self.folder_in("PWD"),
            TildeExpr::OldWorkingDir => self.folder_in("OLDPWD"),
            TildeExpr::NthDirFromTopOfDirStack { n, .. } => self.stacked(*n, false),
            TildeExpr::NthDirFromBottomOfDirStack { n } => self.stacked(*n, true),
        }
    }

    /// Returns the folder that a variable names.
    fn folder_in(&mut self, name: &str) -> String {
        self.settle(name);
        self.state.value(name, None).scalar().to_owned()
    }
}

/// Returns whether a tilde is joined to what is expanded, `~$user`: one shell looks for tildes behind expansions only.
pub(super) fn is_joined(piece: &Piece, next: Option<&Piece>) -> bool {
    let is_tilde = match piece {
        Piece::Text(text) => text.starts_with('~') && !text.contains('/'),
        Piece::TildeExpansion(tilde) => matches!(tilde, TildeExpr::Home | TildeExpr::UserHome(_)),
        _ => false,
    };
    let ends = |text: &str| text.starts_with('/');
    is_tilde && next.is_some_and(|next| !matches!(next, Piece::Text(text) if ends(text)))
}
