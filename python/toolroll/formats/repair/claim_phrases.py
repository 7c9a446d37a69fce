"""Phrases that claim a completed action in nine languages, and contexts in which they are no claim.

English is not among them: `english_claims` finds its claims by their grammar.

RE2 expressions, matched case-insensitively against one sentence at a time, without quoted text.
"""

from __future__ import annotations

from typing import NamedTuple


class Phrases(NamedTuple):
    """The phrases of one language.

    Attributes:
        claims: phrases that are claims.
        unless_before: no claim if one of these is in its clause up to its end: negation, condition, other
            actors.
        unless_after: no claim if one of these directly follows.
    """

    claims: tuple[str, ...]
    unless_before: str
    unless_after: str = ""


_DE = (
    "(?:gesendet|verschickt|versendet|geschickt|erstellt|angelegt|gelöscht|entfernt|aktualisiert|hinzugefügt"
    "|gebucht|reserviert|storniert|abgesagt|gespeichert|eingetragen|eingerichtet|geplant|verschoben|geändert"
    "|gesetzt|gestellt|weitergeleitet|beantwortet|hochgeladen|heruntergeladen|geteilt|eingeladen|bestellt"
    "|eingeschaltet|ausgeschaltet|abgeschickt|veröffentlicht|gesucht|nachgeschaut|nachgesehen|geprüft|überprüft"
    "|aufgegeben|angerufen|gemailt|beauftragt|abgeschlossen|umgebucht|gestartet|gestoppt|vorgenommen|erledigt"
    "|durchsucht|abgerufen|ausgeführt|übermittelt|vereinbart|umbenannt|archiviert|notiert|benachrichtigt)"
)
_FR = (
    "(?:envoyé|créé|programmé|planifié|supprimé|effacé|mis à jour|ajouté|réservé|enregistré|sauvegardé|annulé"
    "|modifié|changé|transféré|répondu|téléchargé|partagé|invité|commandé|activé|désactivé|publié|cherché"
    "|recherché|vérifié|consulté|déplacé|noté|fixé|configuré|passé|éteint|allumé|effectué|confirmé|lancé|arrêté|appelé|écrit|rempli|acheté|payé|téléphoné"
    "|prévenu|transmis|soumis|inscrit|renommé|archivé|mis)"
)
_ES = (
    "(?:enviado|creado|programado|agendado|eliminado|borrado|actualizado|añadido|agregado|reservado|guardado"
    "|cancelado|modificado|cambiado|reenviado|respondido|subido|descargado|compartido|invitado|pedido|activado"
    "|desactivado|publicado|buscado|revisado|consultado|comprobado|movido|configurado|anotado|notificado"
    "|realizado|hecho|apagado|encendido|confirmado|llamado|escrito|comprado|pagado|completado"
    "|registrado|puesto|mandado|archivado)"
)
_ES_PAST = (
    "(?:envié|creé|programé|agendé|eliminé|borré|actualicé|añadí|agregué|reservé|guardé|cancelé|modifiqué"
    "|cambié|reenvié|respondí|subí|descargué|compartí|invité|activé|desactivé|publiqué|busqué|revisé|consulté"
    "|apagué|encendí|confirmé|compré|pagué|completé|llamé|comprobé|moví|configuré|anoté|notifiqué|registré|mandé)"
)
_ES_DONE = (
    "(?:enviad|cread|programad|agendad|eliminad|actualizad|añadid|agregad|reservad|guardad|cancelad|movid|realizad|completad"
    "|confirmad|borrad|modificad)[oa]s?"
)
_IT = (
    "(?:inviat|mandat|creat|programmat|pianificat|eliminat|cancellat|aggiornat|aggiunt|prenotat|salvat|annullat"
    "|modificat|cambiat|inoltrat|rispost|caricat|scaricat|condivis|invitat|ordinat|attivat|disattivat|pubblicat"
    "|effettuat|spent|acces|confermat|completat|chiamat|scritt|comprat|pagat|fatt|acquistat"
    "|cercat|controllat|verificat|consultat|spostat|impostat|configurat|annotat|fissat|registrat|spedit|mess)"
)
_PT = (
    "(?:enviad|criad|agendad|marcad|programad|excluíd|apagad|removid|atualizad|adicionad|reservad|salv|cancelad"
    "|modificad|alterad|encaminhad|respondid|carregad|baixad|compartilhad|partilhad|convidad|pedid|ativad"
    "|desativad|publicad|movid|configurad|anotad|notificad|registrad"
    "|eliminad|definid|feit|realizad|concluíd|confirmad|pag|comprad|desligad|ligad|mandad|finalizad)"
)
_PT_PAST = (
    "(?:enviei|criei|agendei|marquei|programei|excluí|apaguei|removi|atualizei|adicionei|reservei|salvei|guardei"
    "|cancelei|modifiquei|alterei|encaminhei|respondi|carreguei|baixei|compartilhei|partilhei|convidei|ativei"
    "|desativei|publiquei|pesquisei|procurei|verifiquei|consultei|movi|configurei|anotei|notifiquei|registrei"
    "|desliguei|liguei|confirmei|comprei|paguei|concluí|mandei|defini|eliminei)"
)
_NL = (
    "(?:gestuurd|verstuurd|verzonden|aangemaakt|gemaakt|ingepland|gepland|verwijderd|gewist|bijgewerkt|toegevoegd"
    "|geboekt|gereserveerd|opgeslagen|geannuleerd|gewijzigd|aangepast|veranderd|doorgestuurd|beantwoord|geüpload"
    "|gedownload|gedeeld|uitgenodigd|besteld|ingeschakeld|uitgeschakeld|gepubliceerd|gezocht|opgezocht|nagekeken"
    "|gemaild|uitgezet|aangezet|uitgedaan|bevestigd|gebeld|gekocht|betaald|voltooid|afgerond"
    "|gecontroleerd|bekeken|verplaatst|ingesteld|genoteerd|gezet|geplaatst|geregistreerd|ingediend)"
)
_KO = (
    "(?:전송|발송|생성|추가|예약|삭제|수정|변경|업데이트|갱신|등록|저장|설정|취소|검색|조회|확인|공유|업로드|다운로드"
    "|작성|결제|구매|발행|종료|시작|반영|초대|이동|완료|전달|제출|주문|게시|실행|처리)"
)
_KO_DONE = "(?:했|하였|해 ?두었|해 ?뒀|해 ?놓았|해 ?놨|해 ?드렸|되었|됐|완료했|완료하였|완료되었|완료됐)"
_KO_NATIVE = "(?:보냈|보내 ?드렸|보내 ?두었|만들었|만들어 ?드렸|지웠|바꿨|바꾸었|잡았|잡아 ?드렸|찾아 ?봤|찾아보았|올렸|적어 ?두었|옮겼|껐|켰|꺼 ?드렸|켜 ?드렸|걸었|열었|닫았)"
_JA = (
    "(?:送信|作成|追加|予約|削除|更新|登録|保存|設定|変更|キャンセル|検索|確認|共有|アップロード|ダウンロード|招待"
    "|送付|購入|支払い|起動|停止|反映|手続き|移動|注文|転送|返信|完了|手配|投稿|公開|実行|修正|編集|発送|連絡|通知)"
)
_ZH = (
    "(?:发送|发出|寄出|创建|新建|添加|加入|预订|预约|删除|更新|保存|设置|设定|取消|安排|修改|更改|提交|上传|下载|分享"
    "|改到|改为|改成|发给|关掉|关闭|打开|开启|购买|支付|确认|提前|推迟|写入|存入|转发|回复|搜索|查询|查看|检查|完成|发布|邀请|移动|记录|通知|下单|預訂|預約|發送|發出|創建|建立|新增|刪除|儲存"
    "|設定|設置|轉發|回覆|搜尋|查詢|檢查|發布|邀請|移動|記錄|上傳|下載)"
)

PHRASES: dict[str, Phrases] = {
    "de": Phrases(
        (
            rf"\b(?:ich habe|habe ich|ich hab|hab ich)\b[^,;:]{{0,90}}?\b{_DE}\b",
            rf"\b(?:wurden?|ist jetzt|sind jetzt|ist nun|sind nun)\b[^,;:]{{0,60}}?\b{_DE}\b",
            rf"\b(?:die|den|das) ich\b[^,;:]{{0,60}}?\b{_DE} habe\b",
            rf"^\W*(?:e-?mail|nachricht|termin|erinnerung|aufgabe|datei|buchung|einladung(?:en)?|bestellung|notiz)"
            rf" (?:erfolgreich )?{_DE}\b",
        ),
        r"\b(?:nicht|kein|keine|keinen|keiner|nie|niemals|wenn|falls|sobald|ob|bevor|nachdem|bis|sofern|würde"
        r"|könnte|hätte|werden|seit)\b",
        r"^ (?:haben|hat|hatte|worden wäre)\b",
    ),
    "fr": Phrases(
        (
            rf"\bj['’]ai (?:bien |déjà |aussi |également |juste |donc |maintenant |immédiatement )*{_FR}",
            rf"\bje (?:(?:vous|te|le|la|les|lui|leur) |[tl]['’])*(?:(?:vous|te|lui|leur) )?(?:l['’])?ai "
            rf"(?:bien |déjà |aussi )*{_FR}",
            r"\bje viens (?:tout juste )?(?:d['’]|de (?:vous |te |le |la |les |lui )?)(?:envoyer|créer|programmer|planifier"
            r"|supprimer|effacer|mettre|ajouter|réserver|enregistrer|annuler|modifier|transférer|partager|commander"
            r"|publier|vérifier|déplacer|consulter)\b",
            rf"\b(?:a|ont) (?:bien |déjà )?été (?:bien |correctement )?{_FR}",
            rf"^\W*(?:e-?mail|courriel|message|rendez-vous|événement|rappel|fichier|réservation|tâche|invitations?)"
            rf" (?:bien )?{_FR}",
        ),
        r"\b(?:pas|jamais|si|dès que|lorsque|quand|après que|une fois que|avant que|aucun|aucune|rien|n['’]a|n['’]ont"
        r"|aurait|aurais|serait|sera)\b",
        r"^ (?:par (?:vous|lui|elle)|plusieurs fois)\b",
    ),
    "es": Phrases(
        (
            rf"(?:^|[^\pL])he (?:\pL+mente |ya )?{_ES}\b",
            rf"(?:^|[^\pL])(?:{_ES_PAST})(?:[^\pL]|$)",
            rf"\b(?:ha sido|han sido|fue|fueron) (?:\pL+mente )?{_ES_DONE}\b",
            r"\bacabo de (?:enviar|mandar|crear|programar|agendar|eliminar|borrar|actualizar|añadir|agregar|reservar"
            r"|guardar|cancelar|modificar|cambiar|compartir|pedir|publicar|mover|revisar|consultar)",
            rf"\bse (?:te |le )?(?:ha|han) {_ES}\b",
            rf"^\W*(?:correo|mensaje|e-?mail|cita|evento|recordatorio|archivo|reserva|tarea|reunión)"
            rf" {_ES_DONE}\b",
        ),
        r"\b(?:no|nunca|si|cuando|en cuanto|una vez que|después de que|antes de que|hasta que|quizás|podría"
        r"|habría|será|tú|usted|él|ella)\b|¿",
        r"^ (?:por (?:ti|usted|él|ella)|varias veces)\b",
    ),
    "it": Phrases(
        (
            rf"\b(?:ho|l['’]ho|te l['’]ho|gliel['’]ho) (?:già |appena |anche |ora |subito )*{_IT}[oaie]\b",
            rf"(?:^|[^\pL])(?:è stat[oa]|sono stat[ie]) (?:già |appena |\pL+mente )*{_IT}[oaie]\b",
            rf"^\W*(?:e-?mail|messaggio|appuntamento|evento|promemoria|file|prenotazione|attività|riunione|invito)"
            rf" {_IT}[oa]\b",
        ),
        r"\b(?:non|mai|se|appena ho|quando|dopo che|prima che|una volta che|finché|nessun|nessuna|avrei|sarebbe"
        r"|sarà)\b",
        r"^ (?:da (?:te|lei|lui)|più volte)\b",
    ),
    "pt": Phrases(
        (
            rf"(?:^|[^\pL])(?:{_PT_PAST})(?:[^\pL]|$)",
            rf"\b(?:foi|foram) (?:já |\pL+mente )?{_PT}[oa]s?\b",
            r"\bacabei de (?:lhe )?(?:mandar|alterar|mover|partilhar|compartilhar|publicar|pesquisar|verificar|enviar|criar|agendar|adicionar|excluir|apagar|atualizar|reservar|salvar|cancelar|marcar)\b",
            rf"^\W*(?:e-?mail|mensagem|compromisso|evento|lembrete|arquivo|reserva|tarefa|reunião) {_PT}[oa]\b",
        ),
        r"(?:^|[^\pL])(?:não|nunca|se|quando|assim que|depois que|antes que|até que|nenhum|nenhuma|poderia|teria"
        r"|será)(?:[^\pL]|$)",
        r"^ (?:por (?:você|ele|ela)|várias vezes)\b",
    ),
    "nl": Phrases(
        (
            rf"\b(?:ik heb|heb ik)\b[^,;:]{{0,90}}?{_NL}\b",
            rf"^\W*(?:klaar[.!,: ]+)?(?:de|het|je|uw|een|alle)\b[^,;:]{{0,60}}? (?:is|zijn) (?:nu |al |inmiddels |succesvol )*{_NL}\b",
            rf"^\W*(?:e-?mail|bericht|afspraak|herinnering|taak|bestand|reservering|uitnodiging(?:en)?) {_NL}\b",
        ),
        r"\b(?:niet|geen|nooit|als|zodra|wanneer|nadat|voordat|tot|indien|of|zou|hebt|heeft|wordt|worden)\b",
        r"^ door (?:jou|u|hem|haar)\b",
    ),
    "ko": Phrases(
        (rf"{_KO}(?:을|를|이|가)? ?{_KO_DONE}(?:습니다|어요|네요|음)", rf"{_KO_NATIVE}(?:습니다|어요|네요)"),
        r"(?:고객님|당신|사용자|회원님|그분|님)(?:이|께서|은|는|가)|(?:^|\s)(?:안|못) \S*$|만약|혹시",
        r"^(?:면|까|다면|만약)",
    ),
    "ja": Phrases(
        (
            rf"{_JA}(?:を|が)?(?:完了)?(?:しました|いたしました|致しました|されました|しておきました|させていただきました|済みです)",
            r"(?:お送りしました|送りました|作りました|消しました|調べました|入れました|取りました|書きました|つけました|止めました|移しました|変えました|お送りいたしました)",
        ),
        r"(?:お客様|あなた|ユーザー|彼|彼女|皆様)(?:が|は)|もし|まだ",
        r"^(?:か|ら|場合|とき|時|と(?:の|おっしゃ|言))",
    ),
    "zh": Phrases(
        (
            rf"已经?(?:成功)?(?:为您|帮您|给您|替您|为你|帮你|给你|替你)?(?:成功)?(?:把.{{1,30}}?|将.{{1,30}}?|给.{{1,15}}?)?{_ZH}",
            rf"已經?(?:成功)?(?:為您|幫您|給您|替您|為你|幫你|給你|替你)?(?:成功)?{_ZH}",
            rf"我(?:刚刚|刚才|刚|已|剛剛|剛|也|又|就)?(?:为您|帮您|给您|替您|帮你|给你|為您|幫您)?(?:在.{{1,20}}?|给.{{1,15}}?|把.{{1,30}}?|将.{{1,30}}?)?{_ZH}(?:.{{0,3}}?了|到.{{1,20}}?了)",
        ),
        r"没有|没|未|尚未|如果|一旦|等我|若|是否|是不是|要不要|能否|无法|不能|沒有|無法|您(?:今天|刚|刚刚|昨天)?已|你(?:今天|刚|刚刚|昨天)?已|他们?已|她们?已",
        r"^(?:吗|嗎|么|之后|以后|后再|的话)",
    ),
}
