//! National numbers: how each is written, how it is checked, and what people call it.
//!
//! A number that carries its own proof (check digits together with an unusual shape) is found anywhere. One
//! that is merely digits of some length is found where the words around it name it. Facts are from the
//! issuing authorities' public descriptions.

use super::super::template::Part::{self, Fold, Lit, Maybe, Run};
use super::super::text::{ALNUM, ByteSet, DIGIT, JOINER, LETTER, UPPER};
use super::checks;

/// One way to write one kind of number.
#[derive(Clone, Copy)]
pub(super) struct Number {
    pub(super) kind: &'static str,
    pub(super) parts: &'static [Part],
    /// Over the number without separators, in upper case.
    pub(super) check: fn(&[u8]) -> bool,
    /// The confidence without any context; nothing where the words around have to name the number.
    pub(super) alone: Option<f32>,
    /// Words that name it, in lower case.
    pub(super) words: &'static [&'static str],
}

const fn sure(kind: &'static str, alone: f32, parts: &'static [Part], check: fn(&[u8]) -> bool) -> Number {
    Number { kind, parts, check, alone: Some(alone), words: &[] }
}

const fn named(
    kind: &'static str,
    words: &'static [&'static str],
    parts: &'static [Part],
    check: fn(&[u8]) -> bool,
) -> Number {
    Number { kind, parts, check, alone: None, words }
}

const fn d(len: usize) -> Part {
    Run(DIGIT, len, len)
}

const fn a(len: usize) -> Part {
    Run(LETTER, len, len)
}

const fn x(len: usize) -> Part {
    Run(ALNUM, len, len)
}

const J: Part = Maybe(JOINER);
const DASH: Part = Lit("-");
const DOT: Part = Lit(".");

const PASSPORT: &[&str] = &[
    "passport",
    "reisepass",
    "pasaporte",
    "passaporto",
    "passeport",
    "pass-nr",
    "travel document",
    "paspoort",
];
const LICENCE: &[&str] = &[
    "licence",
    "license",
    "driver",
    "driving",
    "führerschein",
    "fuehrerschein",
    "patente",
    "permis",
    "dl no",
];
const PLATE: &[&str] =
    &["plate", "kennzeichen", "registration", "car reg", "vehicle", "vrn", "plaka", "number plate"];

/// Numbers that begin with a digit.
pub(super) const BY_DIGIT: &[Number] = &[
    sure("us_ssn", 0.75, &[d(3), DASH, d(2), DASH, d(4)], checks::us_ssn),
    named("us_ssn", &["ssn", "social security", "soc sec"], &[d(3), J, d(2), J, d(4)], checks::us_ssn),
    sure("us_itin", 0.7, &[d(3), DASH, d(2), DASH, d(4)], checks::us_itin),
    sure(
        "us_medicare_id",
        0.85,
        &[d(1), a(1), x(1), d(1), J, a(1), x(1), d(1), J, a(2), d(2)],
        checks::us_mbi,
    ),
    sure("us_npi", 0.55, &[d(4), DASH, d(3), DASH, d(3)], checks::us_npi),
    named("us_npi", &["npi", "provider identifier"], &[d(10)], checks::us_npi),
    sure("us_bank_routing", 0.55, &[d(4), DASH, d(4), DASH, d(1)], checks::aba_routing),
    named("us_bank_routing", &["routing", "aba", "rtn"], &[d(9)], checks::aba_routing),
    named(
        "us_bank_account",
        &["account number", "acct", "account no", "bank account"],
        &[Run(DIGIT, 8, 17)],
        checks::any,
    ),
    named("drivers_licence", LICENCE, &[Run(DIGIT, 7, 13)], checks::any),
    named("passport", PASSPORT, &[d(9)], checks::any),
    sure("uk_nhs_number", 0.7, &[d(3), GAP, d(3), GAP, d(4)], checks::uk_nhs),
    named("uk_nhs_number", &["nhs"], &[d(10)], checks::uk_nhs),
    named(
        "uk_tax_reference",
        &["temporary reference", "temp number", "trn", "paye", "national insurance", "number is"],
        &[d(2), J, a(1), J, d(5)],
        checks::any,
    ),
    named("uk_tax_reference", &["utr", "unique taxpayer"], &[d(5), J, d(5)], checks::any),
    sure("de_social_security", 0.85, &[d(2), J, d(6), J, a(1), J, d(3)], checks::de_pension),
    named(
        "de_tax_id",
        &["steuer", "tax id", "idnr", "tin", "steuerliche"],
        &[d(2), J, d(3), J, d(3), J, d(3)],
        checks::de_tax_id,
    ),
    named("de_physician_number", &["bsnr", "lanr", "betriebsst", "arztnummer"], &[d(9)], checks::any),
    named("de_postcode", &["plz", "postleitzahl"], &[d(5)], checks::any),
    sure(
        "fr_social_security",
        0.9,
        &[d(1), J, d(2), J, d(2), J, x(2), J, d(3), J, d(3), J, d(2)],
        checks::fr_nir,
    ),
    sure("es_nif", 0.85, &[d(8), J, a(1)], checks::es_nif),
    named("it_vat_number", &["partita iva", "p.iva", "p. iva", "piva", "vat"], &[d(11)], checks::it_vat),
    named("nl_bsn", &["bsn", "burgerservice", "sofi"], &[d(9)], checks::nl_bsn),
    named("pl_pesel", &["pesel"], &[d(11)], checks::pl_pesel),
    sure("pl_pesel", 0.3, &[d(11)], checks::pl_pesel),
    named("pl_nip", &["nip"], &[d(3), J, d(3), J, d(2), J, d(2)], checks::any),
    sure("se_personal_number", 0.8, &[d(8), Run(SE_JOINT, 1, 1), d(4)], checks::se_person),
    sure("se_organisation_number", 0.7, &[d(6), DASH, d(4)], checks::se_company),
    sure("se_personal_number", 0.75, &[d(6), Run(SE_JOINT, 1, 1), d(4)], checks::se_person),
    sure("se_personal_number", 0.4, &[Lit("19"), d(10)], checks::se_person),
    sure("se_personal_number", 0.4, &[Lit("20"), d(10)], checks::se_person),
    named("se_personal_number", &["personnummer", "pnr", "swedish"], &[d(10)], checks::se_person),
    sure("no_national_id", 0.65, &[d(6), J, d(5)], checks::no_person),
    sure("dk_cpr", 0.5, &[d(6), DASH, d(4)], checks::day_first),
    named("dk_cpr", &["cpr", "danish"], &[d(10)], checks::day_first),
    sure("fi_personal_code", 0.85, &[d(6), Run(FI_JOINT, 1, 1), d(3), x(1)], checks::fi_person),
    sure("be_national_number", 0.9, &[d(2), DOT, d(2), DOT, d(2), DASH, d(3), DOT, d(2)], checks::be_person),
    named(
        "be_national_number",
        &["rijksregister", "registre national", "insz", "niss"],
        &[d(11)],
        checks::be_person,
    ),
    sure("ch_ahv", 0.9, &[d(3), J, d(4), J, d(4), J, d(2)], checks::ch_ahv),
    named("at_social_security", &["svnr", "sozialversicherung"], &[d(4), J, d(6)], checks::any),
    named("pt_nif", &["nif", "contribuinte"], &[d(3), J, d(3), J, d(3)], checks::any),
    sure("cz_birth_number", 0.7, &[d(6), Lit("/"), Run(DIGIT, 3, 4)], checks::cz_birth),
    named("ro_cnp", &["cnp"], &[d(13)], checks::ro_cnp),
    named("bg_egn", &["egn", "егн"], &[d(10)], checks::any),
    named("gr_afm", &["afm", "αφμ"], &[d(9)], checks::any),
    sure("ie_pps", 0.6, &[d(7), a(1)], checks::ie_pps),
    sure("ie_pps", 0.6, &[d(7), a(2)], checks::ie_pps),
    sure("tr_national_id", 0.6, &[d(11)], checks::tr_person),
    named("hu_tax_id", &["adóazonosító", "adoszam"], &[d(10)], checks::any),
    sure("in_aadhaar", 0.75, &[d(4), J, d(4), J, d(4)], checks::aadhaar),
    sure("in_gstin", 0.85, &[d(2), a(5), d(4), a(1), x(1), Fold("z"), x(1)], checks::any),
    sure("kr_resident_number", 0.8, &[d(6), DASH, d(7)], checks::kr_person),
    named("kr_resident_number", &["rrn", "주민"], &[d(13)], checks::kr_person),
    sure("kr_business_number", 0.7, &[d(3), DASH, d(2), DASH, d(5)], checks::kr_company),
    sure("cn_resident_id", 0.9, &[d(17), x(1)], checks::cn_resident),
    named(
        "th_national_id",
        &["thai", "บัตรประชาชน", "citizen id"],
        &[d(1), J, d(4), J, d(5), J, d(2), J, d(1)],
        checks::any,
    ),
    sure("th_national_id", 0.8, &[d(1), DASH, d(4), DASH, d(5), DASH, d(2), DASH, d(1)], checks::th_person),
    sure("my_nric", 0.5, &[d(6), DASH, d(2), DASH, d(4)], checks::date_first),
    named("jp_my_number", &["my number", "マイナンバー", "個人番号"], &[d(4), J, d(4), J, d(4)], checks::any),
    named("id_nik", &["nik", "ktp"], &[d(16)], checks::any),
    named("ph_tin", &["tin"], &[d(3), DASH, d(3), DASH, d(3), J, Run(DIGIT, 0, 5)], checks::ph_tin),
    named("ng_nin", &["nin", "national identification"], &[d(11)], checks::any),
    named("ng_bvn", &["bvn", "bank verification"], &[d(11)], checks::any),
    sure("za_id_number", 0.65, &[d(13)], checks::za_person),
    sure("br_cpf", 0.9, &[d(3), DOT, d(3), DOT, d(3), DASH, d(2)], checks::br_cpf),
    named("br_cpf", &["cpf"], &[d(11)], checks::br_cpf),
    sure("br_cnpj", 0.9, &[d(2), DOT, d(3), DOT, d(3), Lit("/"), d(4), DASH, d(2)], checks::br_cnpj),
    sure("ar_cuit", 0.8, &[d(2), DASH, d(8), DASH, d(1)], checks::ar_cuit),
    sure("cl_rut", 0.8, &[Run(DIGIT, 1, 2), DOT, d(3), DOT, d(3), DASH, x(1)], checks::cl_rut),
    sure("cl_rut", 0.55, &[Run(DIGIT, 7, 8), DASH, x(1)], checks::cl_rut),
    named("co_nit", &["nit", "cédula", "cedula"], &[Run(DIGIT, 8, 10)], checks::any),
    sure("ca_sin", 0.7, &[d(3), DASH, d(3), DASH, d(3)], checks::ca_sin),
    sure("ca_sin", 0.5, &[d(3), Lit(" "), d(3), Lit(" "), d(3)], checks::ca_sin),
    named("ca_sin", &["sin", "social insurance"], &[d(9)], checks::ca_sin),
    named("au_medicare", &["medicare"], &[d(10)], checks::au_medicare),
    named("au_tfn", &["tfn", "tax file"], &[d(3), J, d(3), J, d(3)], checks::au_tfn),
    sure("au_medicare", 0.65, &[d(4), GAP, d(5), GAP, d(1)], checks::au_medicare),
    sure("au_abn", 0.85, &[d(2), Lit(" "), d(3), Lit(" "), d(3), Lit(" "), d(3)], checks::au_abn),
    named("au_abn", &["abn", "business number"], &[d(11)], checks::au_abn),
    named("au_acn", &["acn", "company number"], &[d(3), J, d(3), J, d(3)], checks::any),
    named("nz_ird", &["ird"], &[Run(DIGIT, 2, 3), J, d(3), J, d(3)], checks::any),
    named("il_id_number", &["teudat", "israeli id", "תעודת"], &[d(9)], checks::varied_luhn),
    named("vehicle_registration", PLATE, &[d(2), J, Run(LETTER, 1, 3), J, Run(DIGIT, 2, 4)], checks::any),
    named(
        "card_security_code",
        &["cvv", "cvc", "cvv2", "security code", "card verification"],
        &[Run(DIGIT, 3, 4)],
        checks::any,
    ),
];

const SE_JOINT: ByteSet = super::super::text::DASH.or(super::super::text::PLUS_SLASH);
const FI_JOINT: ByteSet = super::super::text::DASH.or(super::super::text::PLUS_SLASH).or(UPPER);

/// Numbers that begin with a letter.
pub(super) const BY_LETTER: &[Number] = &[
    sure(
        "uk_nino",
        0.8,
        &[a(2), Lit(" "), d(2), Lit(" "), d(2), Lit(" "), d(2), Lit(" "), a(1)],
        checks::uk_nino,
    ),
    sure("uk_nino", 0.75, &[Run(UPPER, 2, 2), d(6), Run(UPPER, 1, 1)], checks::uk_nino),
    named(
        "uk_nino",
        &["nino", "national insurance", "ni number"],
        &[a(2), J, d(2), J, d(2), J, d(2), J, a(1)],
        checks::uk_nino,
    ),
    sure("uk_driving_licence", 0.85, &[a(5), d(6), a(2), x(3)], checks::any),
    sure("uk_driving_licence", 0.8, &[a(2), Lit("999"), d(6), a(2), x(3)], checks::any),
    named("drivers_licence", LICENCE, &[Run(LETTER, 1, 2), Run(DIGIT, 5, 14)], checks::any),
    named("drivers_licence", LICENCE, &[a(2), d(8), x(1)], checks::any),
    named("passport", PASSPORT, &[a(1), Run(DIGIT, 7, 8)], checks::in_passport),
    named("passport", PASSPORT, &[Run(LETTER, 2, 3), Run(DIGIT, 6, 7)], checks::any),
    named("passport", PASSPORT, &[a(1), d(3), a(1), d(4)], checks::any),
    named("passport", PASSPORT, &[a(1), x(8)], checks::any),
    sure("de_vat_id", 0.8, &[Fold("de"), J, d(3), J, d(3), J, d(3)], checks::de_vat),
    named(
        "eu_vat_id",
        &["vat", "ust", "uid", "tva", "iva", "btw", "moms"],
        &[a(2), J, Run(DIGIT, 8, 12)],
        checks::any,
    ),
    sure("de_health_insurance", 0.5, &[Run(UPPER, 1, 1), d(9)], checks::de_health),
    named(
        "de_id_card",
        &["ausweis", "personalausweis", "id card", "identity card"],
        &[a(1), x(8)],
        checks::any,
    ),
    sure("de_commercial_register", 0.7, &[Lit("HRA"), J, Run(DIGIT, 1, 6)], checks::any),
    sure("de_commercial_register", 0.7, &[Lit("HRB"), J, Run(DIGIT, 1, 6)], checks::any),
    sure("es_nie", 0.85, &[a(1), J, d(7), J, a(1)], checks::es_nie),
    sure("it_fiscal_code", 0.95, &[a(6), d(2), a(1), d(2), a(1), d(3), a(1)], checks::it_fiscal),
    sure("it_fiscal_code", 0.8, &[a(6), x(2), a(1), x(2), a(1), x(3), a(1)], checks::it_fiscal),
    named(
        "it_identity_card",
        &["carta d'identità", "carta di identita", "cie"],
        &[a(2), d(5), a(2)],
        checks::any,
    ),
    sure("in_pan", 0.85, &[Run(UPPER, 5, 5), d(4), Run(UPPER, 1, 1)], checks::in_pan),
    named("in_pan", &["pan", "permanent account"], &[a(5), d(4), a(1)], checks::any),
    named("in_voter_id", &["voter", "epic"], &[a(3), d(7)], checks::any),
    sure("sg_nric", 0.85, &[a(1), d(7), a(1)], checks::sg_nric),
    sure(
        "sg_uen",
        0.8,
        &[Run(UPPER, 1, 1), d(2), Run(UPPER, 2, 2), d(4), Run(UPPER, 1, 1)],
        checks::sg_entity,
    ),
    sure("tw_national_id", 0.8, &[Run(UPPER, 1, 1), d(9)], checks::tw_resident),
    sure("mx_curp", 0.9, &[Run(UPPER, 4, 4), d(6), Run(UPPER, 6, 6), x(1), d(1)], checks::any),
    named("mx_rfc", &["rfc"], &[Run(LETTER, 3, 4), d(6), x(3)], checks::any),
    named(
        "uk_postcode",
        &["address", "postcode", "post code", "london", "postal"],
        &[Run(UPPER, 1, 2), Run(DIGIT, 1, 2), Lit(" "), d(1), Run(UPPER, 2, 2)],
        checks::any,
    ),
    named(
        "uk_postcode",
        &["address", "postcode", "post code", "london", "postal"],
        &[Run(UPPER, 1, 2), d(1), Run(UPPER, 1, 1), Lit(" "), d(1), Run(UPPER, 2, 2)],
        checks::any,
    ),
    named("vehicle_registration", PLATE, &[a(2), d(2), J, a(3)], checks::uk_plate),
    named(
        "vehicle_registration",
        PLATE,
        &[Run(LETTER, 1, 3), J, Run(LETTER, 1, 2), J, Run(DIGIT, 1, 4), Maybe(LETTER)],
        checks::any,
    ),
    named("vehicle_registration", PLATE, &[a(3), J, d(3), J, a(2)], checks::any),
    sure("vehicle_registration", 0.3, &[Run(UPPER, 3, 3), DASH, d(3), Run(UPPER, 2, 2)], checks::any),
    named(
        "medical_licence",
        &["dea", "medical", "certificate", "licence"],
        &[Run(LETTER, 1, 2), d(7)],
        checks::any,
    ),
];

/// A shape, and the check over its letters and digits.
type Shape = (&'static [Part], fn(&[u8]) -> bool);

/// Shapes of documents and vehicles that say enough when a text holds nothing else.
pub(super) const LONE_SHAPES: &[Shape] = &[
    (&[a(1), d(7)], checks::in_passport),
    (&[a(1), d(8)], checks::any),
    (&[a(2), d(7)], checks::any),
    (&[a(3), d(6)], checks::any),
    (&[a(2), d(8), a(1)], checks::any),
    (&[a(1), d(9)], checks::de_health),
    (&[a(1), x(8)], checks::machine_readable),
    (&[a(1), d(3), a(1), d(4)], checks::any),
    (&[a(2), d(7), a(1)], checks::any),
    (&[a(1), d(7), a(1)], checks::no_foreigner),
    (&[a(5), d(4), a(1)], checks::any),
    (&[Run(LETTER, 1, 3), GAP, Run(LETTER, 1, 2), GAP, Run(DIGIT, 1, 4), Maybe(LETTER)], checks::any),
    (&[a(2), d(2), J, a(3)], checks::uk_plate),
    (&[a(3), d(3), a(2)], checks::any),
    (&[d(2), Lit(" "), Run(LETTER, 1, 3), Lit(" "), Run(DIGIT, 2, 4)], checks::any),
    (&[Run(UPPER, 1, 2), Run(DIGIT, 1, 2), Maybe(UPPER), Maybe(JOINER), d(1), Run(UPPER, 2, 2)], checks::any),
];

/// A gap that has to be there.
const GAP: Part = Run(super::super::text::DASH.or(super::super::text::SPACE), 1, 1);
